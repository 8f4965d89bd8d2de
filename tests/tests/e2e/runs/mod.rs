//! Containers that outlive their sandbox: sealed or not, with hooks, rollback, a changing policy,
//! and permitted and refused options.

mod allowed;
mod copy;
mod fixture;
mod hooks;
mod lifecycle;
mod policy;
mod sealed;
mod volumes;
