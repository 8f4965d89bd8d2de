//! The cost of a permitted request: a request and tokens of the budget, and its lines in the host's
//! log.

use sandbox_proxy_protocol::BlockReason;

use super::client::Client;
use super::exchange::Exchange;
use crate::policy::{Blocked, Permit, TokenReport};

/// Charges the cost of a request of which nothing was sent yet and, if `tunnel`, of the tunnel that
/// it may become.
///
/// # Errors
///
/// If the budget is used up or cannot be enforced, or the log is full.
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
    // Checked last: a request that is refused for another reason must not use up room in the log.
    if !exchange.fits(&client.shared.log, tunnel) {
        return Err(Blocked::new(
            BlockReason::Limit,
            "the network log of this task is full, and nothing passes without a record: end the task and begin another",
        ));
    }
    Ok(())
}

/// Whether the reported tokens are read from the response, which then must not be compressed.
pub(super) fn counts_tokens(client: &Client, permit: &Permit) -> bool {
    permit.tokens() == TokenReport::Response && bounds_tokens(client, permit)
}

fn bounds_tokens(client: &Client, permit: &Permit) -> bool {
    has_budget(client, permit) && client.shared.context.spending.bounds_tokens()
}

/// Requests to services of the host cost nothing.
fn has_budget(client: &Client, permit: &Permit) -> bool {
    matches!(client.service(permit.host()), Ok(None))
}
