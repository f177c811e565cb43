"""What people type beside `run`: reproduce, status, plan, doctor, collect, archive, docs, perf."""
