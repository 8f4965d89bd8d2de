//! Egress of the steps of an image build, and their leftovers.

mod fixture;
mod hostile;
mod killed;
mod reach;
mod trust;
