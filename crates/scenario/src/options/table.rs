//! Macro that makes everything of an option from its row in [`options`](super).

/// Type of an option in [`TransportConfig`](super::TransportConfig): the form in which it is written, unless a row
/// names another.
macro_rules! configured {
    ($form:ty) => {
        $form
    };
    ($form:ty, $type:ty) => {
        $type
    };
}

/// Value of a cell: TOML, as a scenario would have it, or `_` for none.
macro_rules! cell {
    (_ $form:ty) => {
        None
    };
    ($value:tt $form:ty) => {
        read::<$form>(stringify!($value)).into()
    };
}

/// Sentence for editors about the stacks that have an option.
macro_rules! owners {
    (EVERY) => {
        ""
    };
    (MULTIPATH) => {
        "\n\nMPTCP and MPQUIC only: TCP has one path, and there it has no effect."
    };
    (MPTCP_TCP) => {
        "\n\nMPTCP and TCP only: with MPQUIC it has no effect."
    };
    (V09X) => {
        "\n\nMPTCP v0.9x only: elsewhere it has no effect."
    };
    (LINUX_V1) => {
        "\n\nMPTCP linux-v1 only: elsewhere it has no effect."
    };
    (QUIC) => {
        "\n\nMPQUIC only: elsewhere it has no effect."
    };
}

/// Sentence for editors about the bound of an option.
macro_rules! bound {
    (0) => {
        " More than zero."
    };
}

/// Makes `Options` (the keys of `[options]`, of which the JSON Schema is made, too), `TransportConfig`, its values for
/// each stack, what is checked and applied, and the rows of the reference page.
macro_rules! options {
    ($(
        $(#[doc = $doc:literal])+
        $name:ident: $form:ty $(as $type:ty)? $(> $bound:tt)?
            = [$v09x:tt, $linux_v1:tt, $tcp:tt, $mpquic:tt], $owners:ident;
    )+) => {
        /// Settings of the transport; those that are not given are the transport's own.
        #[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        pub(crate) struct Options {
            $(
                $(#[doc = $doc])+
                #[doc = concat!($(bound!($bound),)? owners!($owners))]
                pub $name: Option<$form>,
            )+
        }

        /// A stack that carries a connection, and its settings.
        #[derive(Clone, Debug, PartialEq)]
        pub struct TransportConfig {
            /// Transport protocol, as this host speaks it.
            pub stack: Stack,
            /// Rules of the stack.
            pub rules: StackRules,
            /// Side that sends the data.
            pub direction: Direction,
            /// QUIC over several paths: a window does not grow while its packets wait longer than this in the queue
            /// that it fills. Only the driver does it, and scenarios cannot set it: so the simulator and QUIC in
            /// virtual time stay the same.
            pub standing_queue: Option<Span>,
            /// QUIC: where packets of a path arrive after they were declared lost, its packets are waited for longer
            /// from then on. Only the driver does it, and scenarios cannot set it.
            pub adapts_to_reordering: bool,
            $($(#[doc = $doc])+ pub $name: configured!($form $(, $type)?),)+
        }

        /// Reads the defaults of each stack, in the order of [`Stack::ALL`].
        fn defaults() -> [TransportConfig; 4] {
            let config = |stack: Stack, $($name: configured!($form $(, $type)?)),+| TransportConfig {
                stack,
                rules: stack.rules(),
                direction: Direction::Download,
                standing_queue: None,
                adapts_to_reordering: false,
                $($name,)+
            };
            [
                config(Stack::MptcpV09x, $(cell!($v09x $form)),+),
                config(Stack::MptcpLinuxV1, $(cell!($linux_v1 $form)),+),
                config(Stack::Tcp, $(cell!($tcp $form)),+),
                config(Stack::Mpquic, $(cell!($mpquic $form)),+),
            ]
        }

        impl Options {
            /// Puts what is given in place of the defaults, where an option is of the stack.
            fn put(&self, config: &mut TransportConfig) {
                $(if let Some(given) = self.$name.filter(|_| $owners.contains(&config.stack)) {
                    config.$name = given.into();
                })+
            }

            /// First key that must be more than zero and is not.
            fn zero(&self) -> Option<&'static str> {
                $($(if self.$name.is_some_and(|given| given.smallest() == $bound) {
                    return Some(stringify!($name));
                })?)+
                None
            }
        }

        /// Rows of the reference page: name, values for each stack, stacks that have the option, meaning.
        const ROWS: &[(&str, [&str; 4], &[Stack], &str)] = &[$((
            stringify!($name),
            [stringify!($v09x), stringify!($linux_v1), stringify!($tcp), stringify!($mpquic)],
            $owners,
            concat!($($doc,)+ $(bound!($bound))?),
        ),)+];
    };
}
