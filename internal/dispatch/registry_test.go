package dispatch

import (
	"math/rand/v2"
	"net/netip"
	"testing"
)

// special is a row of the registries of special-purpose addresses that IANA keeps
// (RFC 6890 and its successors), or of those of multicast and of unicast IPv6.
type special struct {
	block  string
	name   string
	global bool // the registry says that it can be reached from everywhere
}

// registry was written down from the registries and not from the table that it checks.
var registry = []special{
	{"0.0.0.0/8", "this network", false},
	{"0.0.0.0/32", "this host on this network", false},
	{"10.0.0.0/8", "private use", false},
	{"100.64.0.0/10", "shared address space", false},
	{"127.0.0.0/8", "loopback", false},
	{"169.254.0.0/16", "link local", false},
	{"172.16.0.0/12", "private use", false},
	{"192.0.0.0/24", "IETF protocol assignments", false},
	{"192.0.0.0/29", "IPv4 service continuity", false},
	{"192.0.0.8/32", "IPv4 dummy address", false},
	{"192.0.0.9/32", "port control anycast", true},
	{"192.0.0.10/32", "traversal using relays anycast", true},
	{"192.0.0.170/31", "NAT64 discovery", false},
	{"192.0.2.0/24", "documentation", false},
	{"192.31.196.0/24", "AS112 v4", true},
	{"192.52.193.0/24", "AMT", true},
	{"192.88.99.0/24", "6to4 relay anycast", false},
	{"192.168.0.0/16", "private use", false},
	{"192.175.48.0/24", "direct delegation AS112", true},
	{"198.18.0.0/15", "benchmarking", false},
	{"198.51.100.0/24", "documentation", false},
	{"203.0.113.0/24", "documentation", false},
	{"224.0.0.0/4", "multicast", false},
	{"240.0.0.0/4", "reserved", false},
	{"255.255.255.255/32", "limited broadcast", false},

	{"::1/128", "loopback", false},
	{"::/128", "unspecified", false},
	{"::/96", "IPv4 compatible, deprecated", false},
	{"64:ff9b::/96", "IPv4-IPv6 translation", true},
	{"64:ff9b:1::/48", "local IPv4-IPv6 translation", false},
	{"100::/64", "discard only", false},
	{"100:0:0:1::/64", "dummy prefix", false},
	{"2001::/23", "IETF protocol assignments", false},
	{"2001::/32", "Teredo", false},
	{"2001:1::1/128", "port control anycast", true},
	{"2001:1::2/128", "traversal using relays anycast", true},
	{"2001:1::3/128", "DNS-SD service registration anycast", true},
	{"2001:2::/48", "benchmarking", false},
	{"2001:3::/32", "AMT", true},
	{"2001:4:112::/48", "AS112 v6", true},
	{"2001:10::/28", "ORCHID, deprecated", false},
	{"2001:20::/28", "ORCHIDv2", true},
	{"2001:30::/28", "drone remote identification", true},
	{"2001:db8::/32", "documentation", false},
	{"2002::/16", "6to4", false},
	{"2620:4f:8000::/48", "direct delegation AS112", true},
	{"3fff::/20", "documentation", false},
	{"5f00::/16", "segment routing", false},
	{"fc00::/7", "unique local", false},
	{"fe80::/10", "link local", false},
	{"fec0::/10", "site local, deprecated", false},
	{"ff00::/8", "multicast", false},
}

// TestRegistries checks both ends and the middle of every block: what cannot be reached
// from everywhere is no public destination, and neither are services of the network that
// can. Only translation is as good as the address within.
func TestRegistries(t *testing.T) {
	public := Policy{Mode: ModePublic}
	for _, row := range registry {
		block := netip.MustParsePrefix(row.block)
		if row.block == "64:ff9b::/96" {
			continue // TestModes has it
		}
		for _, addr := range []netip.Addr{block.Addr(), within(block, 0x55), lastOf(block)} {
			if public.Check(addr) == nil {
				t.Errorf("%s passes, and is of %s (%s, global %t)", addr, row.block, row.name, row.global)
			}
		}
	}
}

// TestOrdinaryAddressesPass checks addresses that no registry knows: beside every block,
// and by chance.
func TestOrdinaryAddressesPass(t *testing.T) {
	public := Policy{Mode: ModePublic}
	check := func(addr netip.Addr) {
		if ordinary(addr) != (public.Check(addr) == nil) {
			t.Errorf("%s: the registries say ordinary %t, the policy %v", addr, ordinary(addr), public.Check(addr))
		}
	}
	for _, row := range registry {
		block := netip.MustParsePrefix(row.block)
		if before := block.Addr().Prev(); before.IsValid() {
			check(before)
		}
		if after := lastOf(block).Next(); after.IsValid() {
			check(after)
		}
	}
	random := rand.New(rand.NewPCG(1, 1))
	for range 20_000 {
		check(netip.AddrFrom4([4]byte{byte(random.Uint32()), byte(random.Uint32()), byte(random.Uint32()), byte(random.Uint32())}))
		raw := [16]byte{0x20 | byte(random.Uint32())&0x1f} // of those that are given out
		for i := 1; i < len(raw); i++ {
			raw[i] = byte(random.Uint32())
		}
		check(netip.AddrFrom16(raw))
	}
}

// ordinary reports whether an address is in no block of the registries, and one that is
// given out to hosts at all. The platform address of a cloud is in none.
func ordinary(addr netip.Addr) bool {
	for _, row := range registry {
		if row.block == "64:ff9b::/96" {
			continue
		}
		if netip.MustParsePrefix(row.block).Contains(addr) {
			return false
		}
	}
	given := addr.Is4() || netip.MustParsePrefix("2000::/3").Contains(addr) || netip.MustParsePrefix("64:ff9b::/96").Contains(addr)
	return given && addr != netip.MustParseAddr("168.63.129.16")
}

// TestInternalModeKnowsThePredicates compares the mode for networks of one's own with
// what package netip says of an address.
func TestInternalModeKnowsThePredicates(t *testing.T) {
	internal := Policy{}
	for _, spelling := range spellings {
		addr, err := netip.ParseAddr(spelling)
		if err != nil {
			continue
		}
		plain := addr.Unmap().WithZone("")
		never := plain.IsLoopback() || plain.IsUnspecified() || plain.IsMulticast() || plain.IsLinkLocalUnicast()
		if never && internal.Check(addr) == nil {
			t.Errorf("%s passes", addr)
		}
		if kind := internal.refusal(addr); plain.IsPrivate() && kind != "" && kind != metadata {
			t.Errorf("%s is refused as %s", addr, kind)
		}
	}
}

// within returns an address of a block whose bits behind the prefix are of a pattern.
func within(block netip.Prefix, pattern byte) netip.Addr {
	raw := block.Addr().AsSlice()
	for bit := block.Bits(); bit < len(raw)*8; bit++ {
		mask := byte(0x80) >> (bit % 8)
		raw[bit/8] |= pattern & mask
	}
	addr, _ := netip.AddrFromSlice(raw) // of a length that is right
	return addr
}

func lastOf(block netip.Prefix) netip.Addr { return within(block, 0xff) }
