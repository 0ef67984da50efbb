//! What each learned scheduler sees, earns and does, in the columns of the MPQUIC comparison's Table 1.

/// One line of the overview.
#[derive(Clone, Copy, Debug)]
pub struct Learning {
    /// The scheduler's name in the registry.
    pub scheduler: &'static str,
    /// When it was published.
    pub year: u16,
    /// What kind of learner it is, and whether it goes on learning at work.
    pub learner: &'static str,
    /// What it sees.
    pub state: &'static str,
    /// What it earns in training.
    pub reward: &'static str,
    /// What it chooses from.
    pub actions: &'static str,
}

const WAIT_OR_SEND: &str = "while the fast path is full: wait for it, or send on the slow one";
const PAIR_REWARD: &str = "throughputs less round-trip times of the pair";

/// Every scheduler that learns, in the order of the registry.
pub static LEARNING: &[Learning] = &[
    Learning {
        scheduler: "q-learning",
        year: 2025,
        learner: "a table, on line",
        state: "a class of each path by round-trip time, loss and timeouts: nine states",
        reward: PAIR_REWARD,
        actions: WAIT_OR_SEND,
    },
    Learning {
        scheduler: "lin-ucb",
        year: 2025,
        learner: "linear bandit with random choices, on line",
        state: "window, peer's window and data in flight over srtt, of both",
        reward: PAIR_REWARD,
        actions: WAIT_OR_SEND,
    },
    Learning {
        scheduler: "peekaboo",
        year: 2020,
        learner: "linear bandit, then fixed odds, on line",
        state: "window, send window and data in flight over latest round-trip time, of both",
        reward: "throughput until the packet's record closes",
        actions: WAIT_OR_SEND,
    },
    Learning {
        scheduler: "m-peekaboo",
        year: 2021,
        learner: "linear bandit, then fixed odds, on line",
        state: "window and data in flight over latest round-trip time, of both",
        reward: "throughput until the packet's record closes",
        actions: WAIT_OR_SEND,
    },
    Learning {
        scheduler: "ucb1-redundancy",
        year: 2023,
        learner: "bandit (UCB1 or EXP3), on line",
        state: "none",
        reward: "throughput and delay of each interval",
        actions: "a path's share of copies: all, half, none",
    },
    Learning {
        scheduler: "dqn",
        year: 2025,
        learner: "deep Q-network, frozen",
        state: "window, srtt and data in flight of both",
        reward: PAIR_REWARD,
        actions: WAIT_OR_SEND,
    },
    Learning {
        scheduler: "rlds",
        year: 2019,
        learner: "deep Q-network, frozen",
        state: "window, round-trip time, loss and rates of every path",
        reward: "throughput of the interval",
        actions: "the path of the next 100 ms",
    },
    Learning {
        scheduler: "rosello",
        year: 2019,
        learner: "deep Q-network, frozen",
        state: "free window, round-trip time and data in flight of both",
        reward: "throughput",
        actions: "path 1 or path 2, while both have room",
    },
    Learning {
        scheduler: "lee-yoo",
        year: 2022,
        learner: "deep Q-network, frozen",
        state: "window, srtt and data in flight of both, credit, what is left of the chunk",
        reward: "acknowledged packets and the chunk's time",
        actions: "one of seven splits for 50 ms",
    },
    Learning {
        scheduler: "falcon",
        year: 2022,
        learner: "deep Q-networks of twelve groups, adapted on line",
        state: "window, srtt and data in flight of both, credit",
        reward: "throughput of the pair",
        actions: WAIT_OR_SEND,
    },
    Learning {
        scheduler: "evolved",
        year: 2026,
        learner: "network found by evolution strategies, frozen",
        state: "the controller's behaviour on both paths, without units",
        reward: "completion time over min-RTT's",
        actions: WAIT_OR_SEND,
    },
    Learning {
        scheduler: "stsgat",
        year: 2024,
        learner: "graph attention network that copies an oracle, frozen",
        state: "twelve intervals of every path, and the data's sizes",
        reward: "the oracle's choice",
        actions: "the path of the messages of one size, for 100 ms",
    },
    Learning {
        scheduler: "pdaa3c",
        year: 2022,
        learner: "asynchronous advantage actor-critic, frozen",
        state: "window, round-trip time, loss and rates of every path",
        reward: "the sum of the paths' log throughputs",
        actions: "the path of the next 100 ms",
    },
    Learning {
        scheduler: "reles",
        year: 2019,
        learner: "actor-critic with LSTM, frozen",
        state: "eight intervals of every path",
        reward: "throughput less round-trip time and loss",
        actions: "the share of every path for an interval",
    },
    Learning {
        scheduler: "gaps",
        year: 2020,
        learner: "actor-critic with a plain network, frozen",
        state: "eight intervals of every path, and the gaps",
        reward: "goodput less what waits out of order",
        actions: "five steps of each slow path's gap",
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learned::policy_file::PolicyFile;
    use crate::learned::shipped::SHIPPED;

    #[test]
    fn lines_name_schedulers_and_no_policy_is_without_one() {
        assert!(
            LEARNING.iter().all(|line| crate::find(line.scheduler).is_some_and(|entry| entry.name == line.scheduler))
        );
        assert!(SHIPPED.iter().all(|policy| LEARNING.iter().any(|line| line.scheduler == policy.scheduler)));
    }

    /// What a line says of the network is what its policies have: an LSTM, graph attention, or neither.
    #[test]
    fn lines_say_what_their_networks_are() {
        let kinds = [("lstm", "LSTM"), ("stsgat", "graph attention")];
        for policy in SHIPPED {
            let file = PolicyFile::parse(policy.bytes).unwrap();
            let network = file.card("network").unwrap_or_default().to_owned();
            let line = LEARNING.iter().find(|line| line.scheduler == policy.scheduler).unwrap();
            for (kind, said) in kinds {
                let name = format!("{}:policy={}", policy.scheduler, policy.name);
                assert_eq!(
                    network.starts_with(kind),
                    line.learner.contains(said),
                    "{name}: {network}, {}",
                    line.learner
                );
            }
        }
    }
}
