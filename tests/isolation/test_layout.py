"""Which directories become overlays: worked out from a table of mounts."""

from hotlap.isolation.layout import Layout, Mounted, Planner, mounts

ROOT = Mounted("/", "ext4", frozenset({"rw", "relatime"}))
PROC = Mounted("/proc", "proc", frozenset({"rw"}))
TREE = {
    "/": ["/etc", "/home", "/proc", "/tmp", "/usr", "/data"],
    "/home": ["/home/ann"],
    "/home/ann": ["/home/ann/project", "/home/ann/remote", "/home/ann/.cache"],
}


def plan(*more: Mounted, cover: str = "/home/ann/project", privileged: bool = False) -> Layout:
    keep = ["/proc", "/tmp", "/home/ann/.cache"]
    planner = Planner([ROOT, PROC, *more], [cover], keep, privileged, lambda p: TREE.get(p, []))
    return planner.layout("/layers", {}, [cover])


def test_the_root_is_split_and_turns_read_only() -> None:
    found = plan()
    assert found.overlays == ("/data", "/home", "/usr")
    assert found.readonly == {"/": ["relatime"]}
    assert found.needed == ("/home",)


def test_what_is_shared_is_bound_back() -> None:
    assert set(plan().shared) == {"/tmp", "/home/ann/.cache"}


def test_root_isolates_system_directories_too() -> None:
    assert "/etc" in plan(privileged=True).overlays


def test_a_project_in_a_shared_directory_is_isolated() -> None:
    found = plan(cover="/tmp/project")
    assert "/tmp/project" in found.overlays
    assert found.needed == ("/tmp/project",)


def test_a_disk_in_a_project_in_a_shared_directory_is_isolated() -> None:
    disk = Mounted("/tmp/project/data", "ext4", frozenset({"rw"}))
    beside = Mounted("/tmp/other", "ext4", frozenset({"rw"}))
    found = plan(disk, beside, cover="/tmp/project", privileged=True)
    assert {"/tmp/project", "/tmp/project/data"} <= set(found.overlays)
    assert "/tmp/other" not in found.overlays


def test_a_directory_above_a_mount_is_split_without_root() -> None:
    remote = Mounted("/home/ann/remote", "ext4", frozenset({"rw"}))
    found = plan(remote)
    assert found.overlays == ("/data", "/home/ann/project", "/home/ann/remote", "/usr")
    assert "/home" in plan(remote, privileged=True).overlays


def test_a_read_only_mount_is_left_as_it_is() -> None:
    found = plan(Mounted("/data", "squashfs", frozenset({"ro"})))
    assert "/data" not in found.overlays


def test_an_empty_directory_turns_read_only_but_an_empty_disk_does_not() -> None:
    def overlays(*more: Mounted) -> tuple[str, ...]:
        table = [ROOT, PROC, *more]
        empty = "/data".__eq__
        cover = ["/home/ann/project"]
        planner = Planner(table, cover, ["/proc"], False, lambda p: TREE.get(p, []), empty)
        return planner.layout("/layers", {}, cover).overlays

    assert "/data" not in overlays()
    assert "/data" in overlays(Mounted("/data", "ext4", frozenset({"rw"})))


def test_the_topmost_mount_counts_and_blanks_are_decoded() -> None:
    text = (
        "22 1 0:21 / /my\\040disk rw,relatime shared:1 - ext4 /dev/a rw\n"
        "23 1 0:22 / /my\\040disk ro - tmpfs none ro\n"
    )
    assert mounts(text) == [Mounted("/my disk", "tmpfs", frozenset({"ro"}))]
