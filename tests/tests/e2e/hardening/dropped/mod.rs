//! What podman itself makes of each field of the table in docs/podman.md without the check, and what the sandbox makes of it: it works by
//! another way, or asking for it is an error, or there is no way to ask for it.

mod document;
mod files;
mod identity;
mod limits;
mod network;
mod row;
mod special;
