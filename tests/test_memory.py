"""Free memory: of the machine, and of the cgroup that a scheduler limits."""

from bench.core.memory import free_memory


def laid_out(root, cgroup, limits):
    """Files as Linux has them: 100 MB available; limits {folder: (memory.max, memory.current, inactive_file)}."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text("MemTotal: 200000 kB\nMemAvailable: 100000 kB\n")
    (root / "proc/self/cgroup").write_text(f"{cgroup}\n")
    for folder, (most, used, cached) in limits.items():
        group = root / "sys/fs/cgroup" / folder
        group.mkdir(parents=True, exist_ok=True)
        (group / "memory.max").write_text(f"{most}\n")
        (group / "memory.current").write_text(f"{used}\n")
        (group / "memory.stat").write_text(f"anon 5\ninactive_file {cached}\n")
    return root


def test_memory_of_the_machine(tmp_path):
    assert free_memory(laid_out(tmp_path, "4:memory:/old", {})) == 100_000 * 1024


def test_limits_of_this_job_and_of_those_around_it(tmp_path):
    limits = {"slurm/job": ("max", 10, 0), "slurm": (5000, 3000, 400), "": ("max", 10, 0)}
    assert free_memory(laid_out(tmp_path, "0::/slurm/job", limits)) == 5000 - 3000 + 400


def test_a_cgroup_that_is_full_leaves_nothing(tmp_path):
    assert free_memory(laid_out(tmp_path, "0::/", {"": (1000, 1200, 0)})) == 0


def test_without_any_such_file_half_of_the_memory(tmp_path):
    assert free_memory(tmp_path) > 2**20
