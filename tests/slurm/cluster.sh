# A Slurm cluster of two nodes on the loopback address, for tests: munged, slurmctld and two slurmd in a folder of
# their own, without systemd and without the system's services. To be sourced by bash.
#   start_cluster FOLDER    returns 77 with a line if something is missing
#   kill_node NAME          SIGKILL for its daemon and all its tasks
#   start_node NAME
#   stop_cluster            ends what start_cluster and start_node began

declare -A node_pid=()
cluster_pids=()

# Three free ports.
choose_ports() {
  local port=$((20000 + $$ % 20000)) tried=0
  ports=()
  while ((${#ports[@]} < 3 && tried < 200)); do
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || ports+=("$port")
    port=$((port + 1))
    tried=$((tried + 1))
  done
}

write_config() {
  local user
  user=$(id -un)
  # Requeued jobs wait until the credentials of their first start have expired: 5 s instead of 120 s.
  cat >"$cluster/slurm.conf" <<END
ClusterName=emplace
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmctldPort=${ports[0]}
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
AuthInfo=socket=$cluster/munge/socket,cred_expire=5
CryptoType=crypto/munge
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=bf_interval=2,sched_interval=2,batch_sched_delay=1
StateSaveLocation=$cluster/state
SlurmctldPidFile=$cluster/slurmctld.pid
SlurmctldLogFile=$cluster/slurmctld.log
SlurmdPidFile=$cluster/slurmd.%n.pid
SlurmdLogFile=$cluster/slurmd.%n.log
SlurmdSpoolDir=$cluster/spool.%n
SlurmctldTimeout=10
SlurmdTimeout=8
KillWait=10
ReturnToService=2
JobRequeue=1
NodeName=n1 NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=${ports[1]} CPUs=1
NodeName=n2 NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=${ports[2]} CPUs=1
PartitionName=all Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
END
}

start_munge() {
  mkdir -p -m 0755 "$cluster/munge"
  (umask 077 && head -c 1024 /dev/urandom >"$cluster/munge/key")
  munged --foreground --force --key-file="$cluster/munge/key" --socket="$cluster/munge/socket" \
    --pid-file="$cluster/munge/pid" --log-file="$cluster/munge/log" --seed-file="$cluster/munge/seed" \
    >"$cluster/munged.out" 2>&1 &
  cluster_pids+=($!)
  wait_until 10 test -S "$cluster/munge/socket"
}

# wait_until SECONDS COMMAND...: false if the command never succeeded.
wait_until() {
  local tries=$(($1 * 20))
  shift
  while ! "$@" >/dev/null 2>&1; do
    ((--tries > 0)) || return 1
    sleep 0.05
  done
}

# As root each node has its own processes, as a machine has: they all end with the first one.
start_node() {
  local separate=()
  if [[ $(id -u) == 0 ]] && unshare --pid --fork --kill-child --mount-proc true 2>/dev/null; then
    separate=(unshare --pid --fork --kill-child --mount-proc)
  fi
  "${separate[@]}" slurmd -D -N "$1" >"$cluster/slurmd.$1.out" 2>&1 &
  node_pid[$1]=$!
}

# All processes below one.
descendants() {
  local child
  for child in $(cat /proc/"$1"/task/*/children 2>/dev/null); do
    descendants "$child"
    echo "$child"
  done
}

# Processes of a node's tasks, by their environments. Two processes look at those of all: with some for each, which takes
# seconds, trials would end meanwhile.
processes_of() {
  local environments
  environments=$(grep -lzxF "SLURMD_NODENAME=$1" /proc/[0-9]*/environ 2>/dev/null || true)
  [[ -n "$environments" ]] || return 0
  { grep -lzxF "SLURM_CONF=$cluster/slurm.conf" $environments 2>/dev/null || true; } | tr -dc '0-9\n'
}

kill_node() {
  local pids
  # Tasks have left the daemon's process group and, where nodes do not have their own processes, its children.
  pids="${node_pid[$1]} $(descendants "${node_pid[$1]}") $(processes_of "$1")"
  # All stop first: a daemon that sees its task die would report that to the controller, as no lost machine does.
  kill -STOP $pids 2>/dev/null || true
  kill -KILL $pids 2>/dev/null || true
  wait "${node_pid[$1]}" 2>/dev/null || true
  unset "node_pid[$1]"
}

start_cluster() {
  local program
  for program in munged slurmctld slurmd sbatch; do
    if ! PATH=$PATH:/usr/sbin:/sbin command -v "$program" >/dev/null; then
      echo "skipped: there is no $program (tools/install_dependencies --dev)"
      return 77
    fi
  done
  PATH=$PATH:/usr/sbin:/sbin
  cluster=$1
  mkdir -p "$cluster/state" "$cluster/spool.n1" "$cluster/spool.n2"
  choose_ports
  write_config
  export SLURM_CONF=$cluster/slurm.conf
  start_munge
  slurmctld -D >"$cluster/slurmctld.out" 2>&1 &
  cluster_pids+=($!)
  wait_until 20 scontrol ping
  start_node n1
  start_node n2
  wait_until 30 two_idle
}

two_idle() { [[ $(sinfo -h -N -t idle -o %N | sort -u | wc -l) == 2 ]]; }

stop_cluster() {
  local name
  for name in "${!node_pid[@]}"; do kill_node "$name"; done
  ((${#cluster_pids[@]} == 0)) || kill -KILL "${cluster_pids[@]}" 2>/dev/null || true
  wait 2>/dev/null || true
}
