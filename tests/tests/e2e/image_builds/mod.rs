//! What the steps of an image build may reach, and what they leave behind.

mod bed;
mod hostile;
mod killed;
mod reach;
mod trust;
