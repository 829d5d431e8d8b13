"""The search: which techniques make this script faster, proved one by one."""
