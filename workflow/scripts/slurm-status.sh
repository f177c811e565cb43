#!/bin/sh
# Slurm job id -> success | failed | running, for profiles/cluster-generic.
state=$(scontrol -o show job "$1" 2>/dev/null | sed -n 's/.*JobState=\([A-Z_]*\).*/\1/p')
case "$state" in
COMPLETED) echo success ;;
PENDING | CONFIGURING | RUNNING | COMPLETING | SUSPENDED | PREEMPTED | REQUEUED) echo running ;;
*) echo failed ;;
esac
