"""Facts about the machine, read from trees of files like those of the kernel."""

import pytest

from adaptd.machine import cpu_quota

SYSTEMD = "0::/system.slice/adaptd.service\n"
CASES = {
    "no cgroups": ({}, None),
    "no limit": ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, None),
    "container": ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "150000 100000\n"}, 1.5),
    "service": ({"proc/self/cgroup": SYSTEMD, "sys/fs/cgroup/system.slice/adaptd.service/cpu.max": "50000 100000\n"}, 0.5),
    "slice": (
        {
            "proc/self/cgroup": SYSTEMD,
            "sys/fs/cgroup/system.slice/cpu.max": "200000 100000\n",
            "sys/fs/cgroup/system.slice/adaptd.service/cpu.max": "300000 100000\n",
        },
        2.0,
    ),
    "version 1": (
        {
            "proc/self/cgroup": "4:memory:/x\n3:cpu,cpuacct:/docker/1\n0::/\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "250000\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        },
        2.5,
    ),
    "version 1 without limit": (
        {
            "proc/self/cgroup": "3:cpu,cpuacct:/\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        },
        None,
    ),
    "nonsense": ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "1 0\n"}, None),
}


@pytest.mark.parametrize("case", CASES)
def test_the_quota_is_the_strictest_of_all_cgroups_above(tmp_path, case):
    """Containers, systemd units and both versions of cgroups."""
    files, quota = CASES[case]
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert cpu_quota(tmp_path) == quota
