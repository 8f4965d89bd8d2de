//! What the steps of an image build may reach, and what they leave behind.

mod fixture;
mod hostile;
mod killed;
mod reach;
mod trust;
