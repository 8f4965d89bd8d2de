//! Endless bodies, and a body that decompresses to a thousand times its size.

use e2e_tests::fixture::{Fixture, network_with};
use e2e_tests::secret::{Secrets, injection, unique};
use sandbox::ContainerEnv;
use sandbox::credentials::Injection;

use super::attack::{MOST, attack};

#[tokio::test(flavor = "multi_thread")]
async fn endless_bodies_do_not_block_others_and_end_with_their_task() {
    let fixture = Fixture::new().await;
    let script = "curl -sS https://open.test/bytes/18446744073709551615 > /dev/null &
curl -sS --http1.1 https://open.test/bytes/18446744073709551615 > /dev/null &
cat /dev/zero | curl -sS -T - https://open.test/sink &
cat /dev/zero | curl -sS --http1.1 -T - https://open.test/sink &
for i in 1 2 3 4; do sleep 1; curl -sS --max-time 20 https://open.test/$i; done
jobs -r | wc -l
echo done; wait";
    let attack = attack(&fixture, fixture.command("domains: [open.test]", &["bash", "-c", script])).await;
    assert_eq!(
        attack.output,
        format!("{}4\ndone\n", "hello from open.test\n".repeat(4)),
        "the control: the four still flowed"
    );
    assert!(attack.peak < MOST, "{} KiB", attack.peak);
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn decompression_bomb_is_searched_whole_in_little_memory() {
    let fixture = Fixture::new().await;
    let script = "url=https://bomb.mirror.test/mirror/bomb
curl -sS --max-time 100 -H 'Accept-Encoding: gzip' -H \"Authorization: Bearer $TOKEN\" $url -D /tmp/head | tee >(tail -c 40 > /tmp/tail) | wc -c
sleep 1; cat /tmp/tail; echo
echo done; sleep 3600";
    for strict in [true, false] {
        let real = unique("ghp_", 36);
        let injection =
            Injection { allow_echo: !strict, ..injection(&["*.mirror.test"], &["authorization"]) };
        let secrets = Secrets::default().masked("TOKEN", &real, injection).prepare();
        let surrogate = secrets.env_vars().get("TOKEN").expect("a surrogate");
        let policy = "domains: ['*.mirror.test']";
        let spec = fixture
            .command(policy, &["bash", "-c", script])
            .env(ContainerEnv::new(secrets.env_vars().clone()))
            .network(network_with(policy, &secrets));
        let attack = attack(&fixture, spec).await;
        let (length, rest) = attack.output.split_once('\n').expect("a length");
        let length: u64 = length.parse().expect("a number");
        if strict {
            assert_eq!(length, (1 << 30) + surrogate.len() as u64, "the whole body was unpacked");
            assert_eq!(rest, format!("{surrogate}\ndone\n"));
        } else {
            assert!(length < 4 << 20, "the control: {length} bytes on the wire");
        }
        assert!(attack.peak < MOST, "{} KiB", attack.peak);
    }
    fixture.close().await;
}
