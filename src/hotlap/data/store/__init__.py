"""The store: one folder with shards of payload, tables about them, and a manifest."""

from hotlap.data.store.reader import Store as Store
