//! What a permitted request may cost: a request and tokens of the budget, and its lines in the
//! host's log.

use sandbox_proxy_protocol::BlockReason;

use super::client::Client;
use super::exchange::Exchange;
use crate::policy::{Blocked, Permit, TokenReport};

/// Takes what the request costs, with the tunnel that it may become; nothing of it was sent yet.
///
/// # Errors
///
/// When the budget is used up, or could not be kept to, or the log is full.
pub(super) fn charge(
    client: &Client,
    permit: &Permit,
    exchange: &mut Exchange,
    tunnel: bool,
) -> Result<(), Blocked> {
    if has_budget(client, permit) {
        exchange.spend(&client.shared.context.spending)?;
    }
    if permit.tokens() == TokenReport::Later && bounds_tokens(client, permit) {
        return Err(Blocked::new(
            BlockReason::Budget,
            "the tokens of a batch are reported later, and the policy has a budget of tokens: send single requests, or leave \
             `input_tokens` and `output_tokens` out of `budget` in .sandbox/network-allowlist.yaml",
        ));
    }
    // The log is written until it is full, so what is refused for another reason must take none of
    // it.
    if !exchange.fits(&client.shared.log, tunnel) {
        return Err(Blocked::new(
            BlockReason::Limit,
            "the network log of this task is full, and nothing passes without a record: end the task and begin another",
        ));
    }
    Ok(())
}

/// Whether the answer is read for the tokens that it reports, and so must not be compressed.
pub(super) fn counts_tokens(client: &Client, permit: &Permit) -> bool {
    permit.tokens() == TokenReport::Response && bounds_tokens(client, permit)
}

fn bounds_tokens(client: &Client, permit: &Permit) -> bool {
    has_budget(client, permit) && client.shared.context.spending.bounds_tokens()
}

/// What the host itself serves costs nothing.
fn has_budget(client: &Client, permit: &Permit) -> bool {
    matches!(client.service(permit.host()), Ok(None))
}
