package dispatch

import (
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"code.dny.dev/ssrf"
)

// library is an independent implementation of what ModePublic does.
var library = ssrf.New(ssrf.WithAnyPort())

// wantPublic returns what ModePublic must say of an address: what the library
// says, but for four deliberate differences.
func wantPublic(addr netip.Addr) bool {
	switch nat64 := netip.MustParsePrefix("64:ff9b::/96"); {
	// The kernel connects a mapped address over IPv4, so it is judged as that;
	// the library takes it for an IPv6 address outside the global range.
	case addr.Is4In6():
		return wantPublic(addr.Unmap())

	// A zone says by which interface, not where to; the library refuses all.
	case addr.Zone() != "":
		return wantPublic(addr.WithZone(""))

	// In a network with IPv6 alone, NAT64 is the only way to half of the
	// internet; the library leaves it to its caller to allow the range.
	case nat64.Contains(addr):
		raw := addr.As16()
		return wantPublic(netip.AddrFrom4([4]byte(raw[12:])))

	// The platform address of Azure lies in a public range, which the library
	// does not know.
	case addr == netip.MustParseAddr("168.63.129.16"):
		return false
	}
	return library.SafeAddr(addr) == nil
}

// spellings are addresses and what might pass for one: at the edges of every
// range, within each other, and in the ways that guards have been fooled.
var spellings = strings.Fields(`
	0.0.0.0 0.0.0.1 0.255.255.255 1.0.0.0 1.1.1.1 8.8.8.8 9.255.255.255
	10.0.0.0 10.0.0.1 10.255.255.255 11.0.0.0
	100.63.255.255 100.64.0.0 100.100.100.200 100.127.255.255 100.128.0.0
	126.255.255.255 127.0.0.0 127.0.0.1 127.1.2.3 127.255.255.255 128.0.0.0
	168.63.129.15 168.63.129.16 168.63.129.17
	169.253.255.255 169.254.0.0 169.254.169.254 169.254.170.2 169.254.255.255 169.255.0.0
	172.15.255.255 172.16.0.0 172.31.255.255 172.32.0.0
	191.255.255.255 192.0.0.0 192.0.0.8 192.0.0.192 192.0.0.255 192.0.1.0
	192.0.2.0 192.0.2.255 192.0.3.0 192.31.196.1 192.31.197.0 192.52.193.1 192.52.194.0
	192.88.98.255 192.88.99.1 192.88.100.0 192.167.255.255 192.168.0.0 192.168.255.255 192.169.0.0
	192.175.48.1 192.175.49.0 198.17.255.255 198.18.0.0 198.19.255.255 198.20.0.0
	198.51.99.255 198.51.100.1 198.51.101.0 203.0.112.255 203.0.113.1 203.0.114.0
	223.255.255.255 224.0.0.0 239.255.255.255 240.0.0.0 255.255.255.254 255.255.255.255

	:: ::1 ::2 ::7f00:1 ::127.0.0.1 ::8.8.8.8 ::ffff:0:127.0.0.1 ::ffff:0:8.8.8.8
	::ffff:127.0.0.1 ::ffff:7f00:1 ::ffff:10.0.0.1 ::ffff:8.8.8.8 ::ffff:169.254.169.254 ::ffff:168.63.129.16
	0:0:0:0:0:ffff:a00:1 0000:0000:0000:0000:0000:0000:0000:0001
	64:ff9b::7f00:1 64:ff9b::10.0.0.1 64:ff9b::8.8.8.8 64:ff9b::a9fe:a9fe 64:ff9b::168.63.129.16
	64:ff9b::1:0:0 64:ff9b:0:0:1:: 64:ff9b:1::8.8.8.8 64:ff9b:1::127.0.0.1 64:ff9b:2::8.8.8.8
	100::1 100:0:0:1::1 1fff:ffff::1 2000::1 2001::1 2001:0:7f00:1:: 2001:1::1 2001:1ff:ffff::1 2001:200::1
	2001:db7:ffff::1 2001:db8::1 2001:db9::1 2001:4860:4860::8888
	2002:: 2002:7f00:1:: 2002:808:808::1 2003::1 2606:4700:4700::1111
	2620:4f:7fff::1 2620:4f:8000::1 2620:4f:8001::1 3ffe::1 3fff::1 3fff:fff:ffff::1 3fff:1000::1
	4000::1 5f00::1 fbff::1 fc00::1 fd00::1 fd00:ec2::254 fd20:ce::254 fd00:42::42 fdff:ffff::1
	fe00::1 fe80::1 fe80::1%eth0 fe80::a9fe:a9fe%1 febf::1 fec0::1 ff00::1 ff02::1 ff0e::1
	2606:4700:4700::1111%eth0 ::ffff:8.8.8.8%eth0

	0 1 127.1 127.0.1 127.0.0.01 127.000.000.001 0127.0.0.1 0177.0.0.1 0177.1 0177.0.0.0x1 00.0.0.0
	0x7f.1 0x7f.0x0.0x0.0x1 0X7F000001 0x7f000001 0x7f00.1 2130706433 017700000001 4294967295 4294967296
	10.1 10.0.1 0xa.1 012.1 167772161 0xA9FEA9FE 2852039166 169.16689662 0251.0376.0251.0376
	8.8.8.010 134744072 1.2.3 1.2.3.4. 127.0.0.1. 256.0.0.1 1.2.3.4.5 1.2.3.-4 .127.0.0.1
	１２７.0.0.1 127。0。0。1 ①②⑦.0.0.1 ::1% ::ffff:127.1 [::1] [::ffff:127.0.0.1] [fe80::1%25eth0]
`)

func TestPublicModeAgreesWithLibrary(t *testing.T) {
	if len(spellings) < 100 {
		t.Fatalf("%d spellings only", len(spellings))
	}
	public := Policy{Mode: ModePublic}
	for _, spelling := range spellings {
		t.Run(spelling, func(t *testing.T) {
			passed := public.CheckHost(spelling) == nil
			addr, err := netip.ParseAddr(spelling)
			if err != nil {
				if passed && !isPlainName(spelling) {
					t.Error("passes, though it is no plain address")
				}
				return
			}
			if want := wantPublic(addr); passed != want || (public.Check(addr) == nil) != want {
				t.Errorf("passes %t, want %t", passed, want)
			}
		})
	}
}

// isPlainName reports whether no resolver takes the text for an address.
func isPlainName(text string) bool {
	return strings.HasSuffix(text, "-4") // the last label of 1.2.3.-4 is no number
}

// Each deliberate difference must remain one: were the library to change its
// mind, its exception would have no reason left.
func TestLibraryDiffers(t *testing.T) {
	for _, text := range []string{"::ffff:8.8.8.8", "2606:4700:4700::1111%eth0", "64:ff9b::8.8.8.8", "168.63.129.16"} {
		addr := netip.MustParseAddr(text)
		if (library.SafeAddr(addr) == nil) == wantPublic(addr) {
			t.Errorf("the library agrees on %s now", text)
		}
	}
}

func FuzzPublicMode(f *testing.F) {
	for _, spelling := range spellings {
		if addr, err := netip.ParseAddr(spelling); err == nil {
			f.Add(addr.AsSlice())
		}
	}
	public, internal := Policy{Mode: ModePublic}, Policy{}
	f.Fuzz(func(t *testing.T, raw []byte) {
		addr, ok := netip.AddrFromSlice(raw)
		if !ok {
			return
		}
		passed := public.Check(addr) == nil
		if want := wantPublic(addr); passed != want {
			t.Errorf("%s passes %t, want %t", addr, passed, want)
		}
		if passed && internal.Check(addr) != nil {
			t.Errorf("%s is public, but not allowed by %s", addr, internal.Mode)
		}
	})
}

// FuzzCheckHost compares with what the C library's resolver takes for an IPv4
// address: all of that must be refused, unless it is the address in its usual
// form and that is public.
func FuzzCheckHost(f *testing.F) {
	for _, spelling := range spellings {
		f.Add(spelling)
	}
	public := Policy{Mode: ModePublic}
	f.Fuzz(func(t *testing.T, host string) {
		if public.CheckHost(host) != nil {
			return
		}
		if addr, err := netip.ParseAddr(host); err == nil {
			if !wantPublic(addr) {
				t.Errorf("%s passes", host)
			}
		} else if addr, ok := inetAton(host); ok {
			t.Errorf("%q passes, and some resolvers read %s", host, addr)
		}
	})
}

func TestInetAton(t *testing.T) {
	tests := []struct{ text, want string }{
		{"127.0.0.1", "127.0.0.1"},
		{"0x7f.1", "127.0.0.1"},
		{"0177.0.0.1", "127.0.0.1"},
		{"2130706433", "127.0.0.1"},
		{"127.0.258", "127.0.1.2"},
		{"256.1", ""},
		{"1.2.3.4.5", ""},
		{"example", ""},
	}
	for _, test := range tests {
		addr, ok := inetAton(test.text)
		if ok != (test.want != "") || ok && addr.String() != test.want {
			t.Errorf("inetAton(%q) = %v, %t, want %q", test.text, addr, ok, test.want)
		}
	}
}

// inetAton reads an IPv4 address of one to four numbers, each decimal, octal or
// hexadecimal, the last one filling all bytes that are left.
func inetAton(text string) (netip.Addr, bool) {
	parts := strings.Split(text, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var value uint64
	for i, part := range parts {
		bits := 8
		if i == len(parts)-1 {
			bits = 8 * (5 - len(parts))
		}
		n, err := parseNumber(part, bits)
		if err != nil {
			return netip.Addr{}, false
		}
		value = value<<bits | n
	}
	return netip.AddrFrom4([4]byte{byte(value >> 24), byte(value >> 16), byte(value >> 8), byte(value)}), true
}

func parseNumber(text string, bits int) (uint64, error) {
	switch digits, hex := strings.CutPrefix(strings.ToLower(text), "0x"); {
	case hex:
		return strconv.ParseUint(digits, 16, bits)
	case len(text) > 1 && text[0] == '0':
		return strconv.ParseUint(text, 8, bits)
	default:
		return strconv.ParseUint(text, 10, bits)
	}
}
