//! The system calls that a container may make. All others do not exist for it.
//!
//! The names, separated by spaces, are those of 64-bit programs on x86-64 and arm64. 32-bit
//! programs do not run: they have a second entry to most of the kernel, and `socketcall`, whose
//! arguments a filter cannot inspect.

/// The calls that every container may make, by purpose. None of them grants a privilege that the
/// process does not have.
pub(super) const FREE: &[&str] = &[
    FILES,
    ATTRIBUTES,
    DESCRIPTORS,
    TRANSFER,
    WAITING,
    MEMORY,
    PROCESSES,
    IDENTITY,
    SIGNALS,
    TIME,
    SCHEDULING,
    CONNECTIONS,
    EXCHANGE,
    ITSELF,
];

const FILES: &str = "access chdir chmod chown creat faccessat faccessat2 fchdir fchmod fchmodat fchmodat2 fchown fchownat fstat \
    fstat64 fstatat64 fstatfs fstatfs64 futimesat getcwd getdents getdents64 lchown link linkat \
    lstat lstat64 mkdir mkdirat mknod mknodat name_to_handle_at newfstatat open openat openat2 \
    readlink readlinkat rename renameat renameat2 rmdir stat stat64 statfs statfs64 statx symlink \
    symlinkat truncate truncate64 umask unlink unlinkat utime utimensat utimensat_time64 utimes";

const ATTRIBUTES: &str = "fgetxattr flistxattr fremovexattr fsetxattr getxattr lgetxattr listxattr llistxattr lremovexattr \
    lsetxattr removexattr setxattr";

/// Without `ioctl`, which depends on its request.
const DESCRIPTORS: &str = "close close_range dup dup2 dup3 fadvise64 fadvise64_64 fallocate fcntl fcntl64 fdatasync flock \
    fsync ftruncate ftruncate64 lseek memfd_create memfd_secret pipe pipe2 readahead sync \
    sync_file_range syncfs";

const TRANSFER: &str = "copy_file_range io_cancel io_destroy io_getevents io_setup io_submit pread64 preadv preadv2 \
    pwrite64 pwritev pwritev2 read readv sendfile sendfile64 splice tee write writev";

const WAITING: &str = "epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 \
    fanotify_mark inotify_add_watch inotify_init inotify_init1 inotify_rm_watch pause poll ppoll \
    ppoll_time64 pselect6 pselect6_time64 restart_syscall select";

const MEMORY: &str = "brk get_mempolicy madvise mbind membarrier mincore mlock mlock2 mlockall mmap mmap2 mprotect \
    mremap msync munlock munlockall munmap pkey_alloc pkey_free pkey_mprotect process_mrelease \
    remap_file_pages set_mempolicy";

/// Without `clone`, which depends on its flags, and `clone3`, whose flags a filter cannot inspect;
/// C libraries then fall back to `clone`.
const PROCESSES: &str = "execve execveat exit exit_group fork futex futex_time64 get_robust_list getpgid getpgrp getpid \
    getppid getsid gettid get_thread_area pidfd_getfd pidfd_open prctl process_vm_readv \
    process_vm_writev ptrace rseq set_robust_list set_thread_area set_tid_address setpgid setsid \
    vfork wait4 waitid";

const IDENTITY: &str = "capget capset getegid geteuid getgid getgroups getresgid getresuid getuid setfsgid setfsuid \
    setgid setgroups setregid setresgid setresuid setreuid setuid";

const SIGNALS: &str = "alarm kill pidfd_send_signal rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo \
    rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_sigtimedwait_time64 rt_tgsigqueueinfo sigaltstack \
    signalfd signalfd4 tgkill tkill";

const TIME: &str = "adjtimex clock_adjtime clock_adjtime64 clock_getres clock_getres_time64 clock_gettime \
    clock_gettime64 clock_nanosleep clock_nanosleep_time64 getitimer gettimeofday nanosleep \
    setitimer time timer_create timer_delete timer_getoverrun timer_gettime timer_gettime64 \
    timer_settime timer_settime64 timerfd_create timerfd_gettime timerfd_gettime64 timerfd_settime \
    timerfd_settime64 times";

const SCHEDULING: &str = "getcpu getpriority getrlimit getrusage ioprio_get ioprio_set prlimit64 sched_get_priority_max \
    sched_get_priority_min sched_getaffinity sched_getattr sched_getparam sched_getscheduler \
    sched_rr_get_interval sched_rr_get_interval_time64 sched_setaffinity sched_setattr \
    sched_setparam sched_setscheduler sched_yield setpriority setrlimit";

/// Without `socket` and `socketpair`, which depend on their family, and `setsockopt`, which depends
/// on its level and option.
const CONNECTIONS: &str = "accept accept4 bind connect getpeername getsockname getsockopt listen recvfrom recvmmsg \
    recvmmsg_time64 recvmsg sendmmsg sendmsg sendto shutdown";

const EXCHANGE: &str = "mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedreceive_time64 mq_timedsend \
    mq_timedsend_time64 mq_unlink msgctl msgget msgrcv msgsnd semctl semget semop semtimedop \
    semtimedop_time64 shmat shmctl shmdt shmget";

/// Calls in which a process queries the machine or restricts itself.
const ITSELF: &str = "arch_prctl getrandom landlock_add_rule landlock_create_ruleset landlock_restrict_self seccomp \
    sysinfo uname";

/// The calls that a capability permits, refused without it.
pub(super) const PRIVILEGED: &[(&str, &str)] = &[
    (
        "CAP_SYS_ADMIN",
        "fanotify_init fsconfig fsmount fsopen fspick lookup_dcookie mount mount_setattr move_mount \
    open_tree pivot_root quotactl quotactl_fd setdomainname sethostname setns umount2",
    ),
    ("CAP_BPF", "bpf"),
    ("CAP_DAC_READ_SEARCH", "open_by_handle_at"),
    ("CAP_PERFMON", "perf_event_open"),
    ("CAP_SYS_BOOT", "reboot"),
    ("CAP_SYS_CHROOT", "chroot"),
    ("CAP_SYS_MODULE", "delete_module finit_module init_module"),
    ("CAP_SYS_PACCT", "acct"),
    ("CAP_SYS_PTRACE", "kcmp process_madvise"),
    ("CAP_SYS_RAWIO", "ioperm iopl"),
    ("CAP_SYSLOG", "syslog"),
    ("CAP_SYS_TIME", "clock_settime clock_settime64 settimeofday"),
    ("CAP_SYS_TTY_CONFIG", "vhangup"),
];

/// Calls that programs do not need, and that no namespace separates or that have had kernel
/// vulnerabilities: key rings, other kernels, page faults in user space, moving pages of others.
pub(super) const REFUSED: &str = "add_key kexec_file_load kexec_load keyctl migrate_pages move_pages request_key swapoff swapon \
    userfaultfd uselib ustat vmsplice";
