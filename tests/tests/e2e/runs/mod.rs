//! Containers that go on without their sandbox: sealed or not, with hooks, roll-back, a policy that
//! changes, and what may and may not be asked for.

mod allowed;
mod copy;
mod fixture;
mod hooks;
mod lifecycle;
mod policy;
mod sealed;
mod volumes;
