//! Runs tests as an unprivileged user.

use rustix::thread::{Gid, Uid, set_thread_res_gid, set_thread_res_uid};

/// A user without root privileges.
pub(crate) const USER: u32 = 65534;

/// Runs `work` in a thread without root privileges.
pub(crate) fn unprivileged(work: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let (gid, uid) = (Gid::from_raw(USER), Uid::from_raw(USER));
            set_thread_res_gid(gid, gid, gid).unwrap();
            set_thread_res_uid(uid, uid, uid).unwrap();
            work();
        });
        thread.join().unwrap();
    });
}
