//! Congestion marks in IP headers (RFC 3168 §5).

/// Marks an IPv4 packet "congestion experienced", if its sender is capable of it. Others stay as they are.
pub fn mark(packet: &mut [u8]) {
    let is_ipv4 = packet.len() >= 20 && packet[0] >> 4 == 4;
    if !is_ipv4 || packet[1] & 0b11 == 0 {
        return;
    }
    packet[1] |= 0b11;
    packet[10..12].fill(0);
    let sum = checksum(&packet[..usize::from(packet[0] & 0xf) * 4]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// The ones' complement of the ones' complement sum of all 16-bit words (RFC 791 §3.1).
fn checksum(header: &[u8]) -> u16 {
    let words = header.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ECT(0) header of 20 bytes, its checksum in place.
    fn header(codepoint: u8) -> Vec<u8> {
        let mut header = vec![0x45, codepoint, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 1, 1, 10, 0, 1, 2];
        let sum = checksum(&header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        header
    }

    #[test]
    fn a_marked_header_sums_to_zero() {
        let mut packet = header(0b10);
        mark(&mut packet);
        assert_eq!(packet[1], 0b11);
        // RFC 791: the sum over a header with its checksum is zero.
        assert_eq!(checksum(&packet), 0);
    }

    #[test]
    fn a_packet_that_is_not_capable_is_left_alone() {
        let mut packet = header(0);
        mark(&mut packet);
        assert_eq!(packet, header(0));
    }
}
