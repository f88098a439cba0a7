package dispatch

import (
	"net/netip"
	"strings"
	"unicode"
)

// addressRange is a special-purpose address range.
type addressRange struct {
	prefix  netip.Prefix
	kind    string // completes "the address is …"; "" for an allowed range
	private bool   // allowed if private addresses are
}

// addressRanges are the special-purpose ranges of the IANA registries and the metadata addresses
// of clouds. The first match counts, so single addresses come first.
var addressRanges = []addressRange{
	// Metadata services, which hand out a machine's credentials.
	{prefix: block("169.254.169.254/32"), kind: metadata},     // most clouds
	{prefix: block("168.63.129.16/32"), kind: metadata},       // Azure, in a public range
	{prefix: block("100.100.100.200/32"), kind: metadata},     // Alibaba
	{prefix: block("192.0.0.192/32"), kind: metadata},         // Oracle
	{prefix: block("fd00:ec2::/32"), kind: metadata},          // AWS
	{prefix: block("fd20:ce::254/128"), kind: metadata},       // Google
	{prefix: block("fd00:c1::a9fe:a9fe/128"), kind: metadata}, // Oracle
	{prefix: block("fd00:42::42/128"), kind: metadata},        // Scaleway
	{prefix: block("fd00:a9fe:a9fe::1/128"), kind: metadata},  // Akamai
	{prefix: block("fd00:100::100:200/128"), kind: metadata},  // Alibaba

	{prefix: block("0.0.0.0/8"), kind: "an unspecified address"},
	{prefix: block("10.0.0.0/8"), kind: "a private address", private: true},
	{prefix: block("100.64.0.0/10"), kind: "a shared address", private: true}, // carriers, and overlay networks
	{prefix: block("127.0.0.0/8"), kind: "a loopback address"},
	{prefix: block("169.254.0.0/16"), kind: "a link-local address"},
	{prefix: block("172.16.0.0/12"), kind: "a private address", private: true},
	{prefix: block("192.0.0.0/24"), kind: reserved},    // protocol assignments
	{prefix: block("192.0.2.0/24"), kind: reserved},    // documentation
	{prefix: block("192.31.196.0/24"), kind: reserved}, // AS112
	{prefix: block("192.52.193.0/24"), kind: reserved}, // multicast tunnelling
	{prefix: block("192.88.99.0/24"), kind: reserved},  // 6to4 relays
	{prefix: block("192.168.0.0/16"), kind: "a private address", private: true},
	{prefix: block("192.175.48.0/24"), kind: reserved}, // AS112
	{prefix: block("198.18.0.0/15"), kind: reserved},   // benchmarks
	{prefix: block("198.51.100.0/24"), kind: reserved}, // documentation
	{prefix: block("203.0.113.0/24"), kind: reserved},  // documentation
	{prefix: block("224.0.0.0/4"), kind: "a multicast address"},
	{prefix: block("240.0.0.0/4"), kind: reserved}, // broadcast included

	{prefix: block("::/128"), kind: "an unspecified address"},
	{prefix: block("::1/128"), kind: "a loopback address"},
	{prefix: block("64:ff9b::/96")}, // NAT64: embeddedIPv4 decides
	{prefix: block("fc00::/7"), kind: "a private address", private: true},
	{prefix: block("fe80::/10"), kind: "a link-local address"},
	{prefix: block("ff00::/8"), kind: "a multicast address"},
	{prefix: block("2001::/23"), kind: reserved},         // protocol assignments, Teredo
	{prefix: block("2001:db8::/32"), kind: reserved},     // documentation
	{prefix: block("2002::/16"), kind: reserved},         // 6to4
	{prefix: block("2620:4f:8000::/48"), kind: reserved}, // AS112
	{prefix: block("3fff::/20"), kind: reserved},         // documentation
}

const (
	metadata = "a cloud metadata address"
	reserved = "a reserved address"
)

// globalIPv6 has all public IPv6 addresses.
var globalIPv6 = block("2000::/3")

func block(text string) netip.Prefix { return netip.MustParsePrefix(text) }

// specialPurpose returns the kind of a special address, "" for an ordinary one. addr must be
// unmapped, without zone.
func specialPurpose(addr netip.Addr, allowPrivate bool) string {
	for _, r := range addressRanges {
		if !r.prefix.Contains(addr) {
			continue
		}
		if r.private && allowPrivate {
			return ""
		}
		return r.kind
	}
	if addr.Is6() && !globalIPv6.Contains(addr) {
		return reserved
	}
	return ""
}

// embedding is an IPv6 range whose addresses contain an IPv4 address.
type embedding struct {
	prefix   netip.Prefix
	offset   int  // of the IPv4 address in bytes
	inverted bool // bits are inverted
}

var (
	compatible = block("::/96")
	localNAT64 = block("64:ff9b:1::/48")

	embeddings = []embedding{
		{prefix: compatible, offset: 12},
		{prefix: block("::ffff:0:0:0/96"), offset: 12}, // translated
		{prefix: block("64:ff9b::/96"), offset: 12},    // NAT64
		{prefix: localNAT64, offset: 12},
		{prefix: block("2002::/16"), offset: 2},                  // 6to4
		{prefix: block("2001::/32"), offset: 4},                  // Teredo: its server
		{prefix: block("2001::/32"), offset: 12, inverted: true}, // Teredo: its client
	}
)

// embeddedIPv4 returns the IPv4 addresses within an IPv6 address.
//
// A local NAT64 (64:ff9b:1::/48) may put the address elsewhere than at the end. Those layouts end
// in three zero bytes and are read as 0.0.0.0, which is refused.
func embeddedIPv4(addr netip.Addr) []netip.Addr {
	if !addr.Is6() || addr.IsUnspecified() || addr.IsLoopback() {
		return nil
	}
	var found []netip.Addr
	raw := addr.As16()
	for _, e := range embeddings {
		if !e.prefix.Contains(addr) {
			continue
		}
		inner := [4]byte(raw[e.offset:])
		if e.inverted {
			inner = [4]byte{^inner[0], ^inner[1], ^inner[2], ^inner[3]}
		}
		if e.prefix == localNAT64 && inner[1]|inner[2]|inner[3] == 0 {
			inner = [4]byte{}
		}
		found = append(found, netip.AddrFrom4(inner))
	}
	return found
}

// asciiHost returns a URL's host without brackets, with digits, letters and dots of other scripts
// and widths replaced by the ASCII ones that name resolution uses.
func asciiHost(host string) string {
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	for i := range len(host) {
		if host[i] > unicode.MaxASCII {
			return strings.Map(asciiRune, host)
		}
	}
	return host
}

func asciiRune(r rune) rune {
	const fullWidthFirst, fullWidthLast, fullWidthShift = '！', '～', '！' - '!'
	switch {
	case r <= unicode.MaxASCII:
		return r
	case r >= fullWidthFirst && r <= fullWidthLast:
		return r - fullWidthShift
	case r == '。' || r == '｡':
		return '.'
	case unicode.IsNumber(r):
		return '0' // any digit will do
	default:
		return r
	}
}

// isNumericHost reports whether a host in ASCII is or may be taken for an address: it has a
// colon, or its last label is a decimal or hexadecimal number, as in no DNS name.
func isNumericHost(host string) bool {
	if strings.IndexByte(host, ':') >= 0 {
		return true
	}
	label := strings.TrimSuffix(host, ".")
	label = label[strings.LastIndexByte(label, '.')+1:]
	if digits, hex := cutHexPrefix(label); hex {
		return strings.Trim(digits, "0123456789abcdefABCDEF") == ""
	}
	return label != "" && strings.Trim(label, "0123456789") == ""
}

func cutHexPrefix(label string) (digits string, hex bool) {
	if len(label) >= 2 && label[0] == '0' && label[1]|0x20 == 'x' {
		return label[2:], true
	}
	return label, false
}
