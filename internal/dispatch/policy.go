package dispatch

import (
	"net/netip"
	"slices"
	"strings"

	"posthaste"
)

// Mode is the set of addresses that a Policy allows.
type Mode uint8

// The default is for a self-hosted server.
const (
	ModeInternal Mode = iota // public and private
	ModePublic               // public only
	ModeAny                  // all, for development
)

var modeNames = [...]string{ModeInternal: "internal", ModePublic: "public", ModeAny: "any"}

// ParseMode parses "any", "internal" or "public".
func ParseMode(text string) (Mode, error) {
	index := slices.Index(modeNames[:], text)
	if index < 0 {
		return 0, posthaste.Invalidf("destinations %q is not known: any, internal and public are", text)
	}
	return Mode(index), nil
}

// String returns the mode's name.
func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return "unknown"
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *Mode) UnmarshalText(text []byte) error {
	mode, err := ParseMode(string(text))
	*m = mode
	return err
}

// Policy decides which addresses may be connected to: those in Allow, else not those in Deny,
// else those of the mode. Allow comes first so that it can make exceptions from Deny.
//
// An IPv6 address that contains an IPv4 address (NAT64, 6to4, Teredo) must pass with both. A
// mapped one (::ffff:10.0.0.1) is that IPv4 address. Zones are ignored.
//
// Do not change a Policy in use.
type Policy struct {
	Mode  Mode
	Allow []netip.Prefix // as ParsePrefix returns them
	Deny  []netip.Prefix // as ParsePrefix returns them
}

// ParsePrefix parses an element of Allow or Deny: a range such as 10.0.0.0/8 or an address.
func ParsePrefix(text string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		addr, err := netip.ParseAddr(text)
		if err != nil || addr.Zone() != "" {
			return netip.Prefix{}, posthaste.Invalidf("address range %q is neither an address nor a range such as 10.0.0.0/8", text)
		}
		prefix = netip.PrefixFrom(addr, addr.BitLen())
	}
	const mappedBits = 96 // before the IPv4 address in ::ffff:a.b.c.d
	if prefix.Addr().Is4In6() && prefix.Bits() >= mappedBits {
		prefix = netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()-mappedBits)
	}
	return prefix.Masked(), nil
}

// notDelivered ends the sentence about a refused address; its reader may be the operator.
const notDelivered = ", which this server does not deliver to unless its settings destinations or allow-destinations say so"

// Check returns an Error with CodeInvalid for a refused address.
func (p *Policy) Check(addr netip.Addr) error {
	if kind := p.refusal(addr); kind != "" {
		return posthaste.Invalidf("destination address %s is %s%s", addr, kind, notDelivered)
	}
	return nil
}

// CheckHost returns an Error with CodeInvalid for a host that is refused without lookup: a
// refused address, localhost, and, unless the mode is ModeAny, ambiguous spellings such as
// 0x7f.1, 2130706433 or 0177.0.0.1. Other names are checked by the address of the socket.
func (p *Policy) CheckHost(host string) error {
	if kind := p.hostRefusal(host); kind != "" {
		return posthaste.Invalidf("destination host %q is %s%s", host, kind, notDelivered)
	}
	return nil
}

func (p *Policy) hostRefusal(host string) string {
	name := asciiHost(host)
	if isLocalName(name) {
		return p.localRefusal()
	}
	if !isNumericHost(name) {
		return ""
	}
	addr, err := netip.ParseAddr(name)
	switch {
	case err == nil:
		return p.refusal(addr)
	case p.Mode == ModeAny:
		return ""
	default:
		return "an ambiguous spelling of an IP address"
	}
}

// localRefusal judges localhost, which passes if either of its addresses does.
func (p *Policy) localRefusal() string {
	if p.refusal(netip.IPv6Loopback()) == "" {
		return ""
	}
	return p.refusal(netip.AddrFrom4([4]byte{127, 0, 0, 1}))
}

// refusal returns the kind of a refused address, "" for an allowed one.
func (p *Policy) refusal(addr netip.Addr) string {
	if !addr.IsValid() {
		return "no address"
	}
	addr = addr.Unmap().WithZone("")
	if kind := p.judge(addr); kind != "" {
		return kind
	}
	for _, inner := range embeddedIPv4(addr) {
		if kind := p.judge(inner); kind != "" {
			return kind + " within IPv6"
		}
	}
	return ""
}

func (p *Policy) judge(addr netip.Addr) string {
	switch {
	case anyContains(p.Allow, addr):
		return ""
	case anyContains(p.Deny, addr):
		return "an address on the deny list"
	case p.Mode == ModeAny:
		return ""
	default:
		return specialPurpose(addr, p.Mode == ModeInternal)
	}
}

func anyContains(prefixes []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(prefix netip.Prefix) bool { return prefix.Contains(addr) })
}

// isLocalName reports whether a name is localhost or below it (RFC 6761, 6.3).
func isLocalName(name string) bool {
	name = strings.TrimSuffix(name, ".")
	const local = "localhost"
	if len(name) > len(local) {
		name = name[len(name)-len(local)-1:]
		return name[0] == '.' && strings.EqualFold(name[1:], local)
	}
	return strings.EqualFold(name, local)
}
