package dispatch

import (
	"net/netip"
	"strings"
	"testing"

	"posthaste"
)

func prefixes(t testing.TB, texts ...string) []netip.Prefix {
	var list []netip.Prefix
	for _, text := range texts {
		prefix, err := ParsePrefix(text)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, prefix)
	}
	return list
}

// Contract, U-76 and decision 11.
func TestModes(t *testing.T) {
	const passes = "" // otherwise the kind of address
	const private, loopback, linkLocal = "a private address", "a loopback address", "a link-local address"
	const unspecified, multicast = "an unspecified address", "a multicast address"
	tests := []struct{ addr, internal, public string }{
		{"8.8.8.8", passes, passes},
		{"2606:4700::1111", passes, passes},
		{"10.0.0.1", passes, private},
		{"172.16.0.1", passes, private},
		{"172.32.0.1", passes, passes},
		{"192.168.1.1", passes, private},
		{"100.64.0.1", passes, "a shared address"},
		{"100.128.0.1", passes, passes},
		{"fd12:3456::1", passes, private},
		{"127.0.0.1", loopback, loopback},
		{"127.255.255.254", loopback, loopback},
		{"::1", loopback, loopback},
		{"0.0.0.0", unspecified, unspecified},
		{"0.1.2.3", unspecified, unspecified},
		{"::", unspecified, unspecified},
		{"169.254.1.1", linkLocal, linkLocal},
		{"fe80::1", linkLocal, linkLocal},
		{"fe80::1%eth0", linkLocal, linkLocal},
		{"224.0.0.1", multicast, multicast},
		{"ff02::1", multicast, multicast},
		{"255.255.255.255", reserved, reserved},
		{"198.18.0.1", reserved, reserved},
		{"fec0::1", reserved, reserved},
		{"100::1", reserved, reserved},

		{"169.254.169.254", metadata, metadata},
		{"168.63.129.16", metadata, metadata},
		{"100.100.100.200", metadata, metadata},
		{"192.0.0.192", metadata, metadata},
		{"fd00:ec2::254", metadata, metadata},
		{"fd00:ec2::23", metadata, metadata},
		{"fd20:ce::254", metadata, metadata},
		{"fd00:c1::a9fe:a9fe", metadata, metadata},
		{"fd00:42::42", metadata, metadata},
		{"fd00:a9fe:a9fe::1", metadata, metadata},
		{"fd00:100::100:200", metadata, metadata},

		{"::ffff:8.8.8.8", passes, passes},
		{"::ffff:10.0.0.1", passes, private},
		{"::ffff:127.0.0.1", loopback, loopback},
		{"::ffff:169.254.169.254", metadata, metadata},
		{"::7f00:1", reserved, reserved},
		{"::8.8.8.8", reserved, reserved},
		{"::ffff:0:127.0.0.1", reserved, reserved},
		{"64:ff9b::8.8.8.8", passes, passes},
		{"64:ff9b::10.0.0.1", passes, private + " within IPv6"},
		{"64:ff9b::127.0.0.1", loopback + " within IPv6", loopback + " within IPv6"},
		{"64:ff9b::169.254.169.254", metadata + " within IPv6", metadata + " within IPv6"},
		{"64:ff9b:1::8.8.8.8", reserved, reserved},
		{"2002:808:808::1", reserved, reserved},
		{"2001:0:808:808::1", reserved, reserved},
	}
	internal, public, everything := Policy{}, Policy{Mode: ModePublic}, Policy{Mode: ModeAny}
	for _, test := range tests {
		t.Run(test.addr, func(t *testing.T) {
			addr := netip.MustParseAddr(test.addr)
			if got := internal.refusal(addr); got != test.internal {
				t.Errorf("internal: %q, want %q", got, test.internal)
			}
			if got := public.refusal(addr); got != test.public {
				t.Errorf("public: %q, want %q", got, test.public)
			}
			if got := everything.refusal(addr); got != passes {
				t.Errorf("any: %q, want it to pass", got)
			}
		})
	}
}

func TestLists(t *testing.T) {
	tests := []struct {
		name        string
		mode        Mode
		allow, deny []string
		addr        string
		wantPass    bool
	}{
		{"allow beats the mode", ModePublic, []string{"127.0.0.0/8"}, nil, "127.0.0.1", true},
		{"allow is no more than its range", ModePublic, []string{"10.0.0.0/8"}, nil, "127.0.0.1", false},
		{"allow lets an IPv6 loopback through", ModeInternal, []string{"::1"}, nil, "::1", true},
		{"deny beats the mode", ModeAny, nil, []string{"8.8.8.0/24"}, "8.8.8.8", false},
		{"deny beats a private range", ModeInternal, nil, []string{"10.0.0.0/8"}, "10.1.2.3", false},
		{"allow beats deny", ModeInternal, []string{"10.1.2.3"}, []string{"10.0.0.0/8"}, "10.1.2.3", true},
		{"beside the allowed one", ModeInternal, []string{"10.1.2.3"}, []string{"10.0.0.0/8"}, "10.1.2.4", false},
		{"a mapped address is IPv4", ModeInternal, nil, []string{"10.0.0.0/8"}, "::ffff:10.1.2.3", false},
		{"a mapped range is IPv4", ModeInternal, nil, []string{"::ffff:10.0.0.0/104"}, "10.1.2.3", false},
		{"a zone does not hide an address", ModeAny, nil, []string{"fe80::/10"}, "fe80::1%eth0", false},

		{"deny reaches into compatible", ModeAny, nil, []string{"10.0.0.0/8"}, "::10.1.2.3", false},
		{"deny reaches into translated", ModeAny, nil, []string{"10.0.0.0/8"}, "::ffff:0:10.1.2.3", false},
		{"deny reaches into NAT64", ModeAny, nil, []string{"10.0.0.0/8"}, "64:ff9b::10.1.2.3", false},
		{"deny reaches into local NAT64", ModeAny, nil, []string{"10.0.0.0/8"}, "64:ff9b:1::10.1.2.3", false},
		{"deny reaches into 6to4", ModeAny, nil, []string{"10.0.0.0/8"}, "2002:a01:203::1", false},
		{"deny reaches the server of Teredo", ModeAny, nil, []string{"10.0.0.0/8"}, "2001:0:a01:203::", false},
		{"deny reaches the client of Teredo", ModeAny, nil, []string{"10.0.0.0/8"}, "2001:0:808:808::f5fe:fdfc", false},
		{"elsewhere the same bytes mean nothing", ModeAny, nil, []string{"10.0.0.0/8"}, "2606:4700::10.1.2.3", true},

		{"allowed local NAT64", ModeInternal, []string{"64:ff9b:1::/48"}, nil, "64:ff9b:1::8.8.8.8", true},
		{"allowed local NAT64 to loopback", ModeInternal, []string{"64:ff9b:1::/48"}, nil, "64:ff9b:1::127.0.0.1", false},
		{"allowed local NAT64 to private", ModePublic, []string{"64:ff9b:1::/48"}, nil, "64:ff9b:1::10.0.0.1", false},
		{"allowed local NAT64 to allowed private", ModePublic, []string{"64:ff9b:1::/48", "10.0.0.1"}, nil, "64:ff9b:1::10.0.0.1", true},
		{"allowed local NAT64 in another layout", ModeInternal, []string{"64:ff9b:1::/48"}, nil, "64:ff9b:1:7f00:0:100:800:0", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			policy := Policy{Mode: test.mode, Allow: prefixes(t, test.allow...), Deny: prefixes(t, test.deny...)}
			err := policy.Check(netip.MustParseAddr(test.addr))
			if (err == nil) != test.wantPass {
				t.Errorf("Check(%s) = %v, want pass %t", test.addr, err, test.wantPass)
			}
		})
	}
}

func TestCheckSaysWhy(t *testing.T) {
	policy := Policy{Deny: prefixes(t, "9.9.9.9")}
	tests := []struct{ addr, want string }{
		{"127.0.0.1", "destination address 127.0.0.1 is a loopback address, which this server does not deliver to unless its settings destinations or allow-destinations say so"},
		{"9.9.9.9", "destination address 9.9.9.9 is an address on the deny list, which this server does not deliver to unless its settings destinations or allow-destinations say so"},
		{"64:ff9b::7f00:1", "destination address 64:ff9b::7f00:1 is a loopback address within IPv6, which this server does not deliver to unless its settings destinations or allow-destinations say so"},
	}
	for _, test := range tests {
		err := policy.Check(netip.MustParseAddr(test.addr))
		if posthaste.ErrorCode(err) != posthaste.CodeInvalid || err.Error() != test.want {
			t.Errorf("Check(%s) = %v, want %q", test.addr, err, test.want)
		}
	}
	if policy.Check(netip.Addr{}) == nil {
		t.Error("the zero address passes")
	}
}

func TestCheckHost(t *testing.T) {
	const ambiguous = "an ambiguous spelling of an IP address"
	loopbackAllowed := Policy{Allow: prefixes(t, "127.0.0.1")}
	tests := []struct {
		host   string
		policy Policy
		want   string // the kind that is refused, "" to pass
	}{
		{"example.com", Policy{}, ""},
		{"example.com.", Policy{}, ""},
		{"xn--bcher-kva.example", Policy{}, ""},
		{"bücher.example", Policy{}, ""},
		{"1.example", Policy{}, ""},
		{"0x7f.example", Policy{}, ""},
		{"cafe", Policy{}, ""},
		{"intranet", Policy{}, ""},
		{"", Policy{}, ""},
		{"8.8.8.8", Policy{}, ""},
		{"2606:4700::1111", Policy{}, ""},
		{"[2606:4700::1111]", Policy{}, ""},
		{"127.0.0.1", Policy{}, "a loopback address"},
		{"::1", Policy{}, "a loopback address"},
		{"[::1]", Policy{}, "a loopback address"},
		{"fe80::1%eth0", Policy{}, "a link-local address"},
		{"10.0.0.1", Policy{Mode: ModePublic}, "a private address"},
		{"127.0.0.1", Policy{Mode: ModeAny}, ""},
		{"127.0.0.1", Policy{Mode: ModeAny, Deny: prefixes(t, "127.0.0.0/8")}, "an address on the deny list"},

		{"localhost", Policy{}, "a loopback address"},
		{"LocalHost.", Policy{}, "a loopback address"},
		{"app.localhost", Policy{}, "a loopback address"},
		{"notlocalhost", Policy{}, ""},
		{"localhost.example", Policy{}, ""},
		{"localhost", Policy{Mode: ModeAny}, ""},
		{"localhost", loopbackAllowed, ""},
		{"localhost", Policy{Allow: prefixes(t, "::1")}, ""},
		{"127.0.0.1", loopbackAllowed, ""},
		{"127.0.0.2", loopbackAllowed, "a loopback address"},

		{"0x7f.1", Policy{}, ambiguous},
		{"0X7F.0.0.1", Policy{}, ambiguous},
		{"0x7f000001", Policy{}, ambiguous},
		{"0x", Policy{}, ambiguous},
		{"2130706433", Policy{}, ambiguous},
		{"0177.0.0.1", Policy{}, ambiguous},
		{"127.1", Policy{}, ambiguous},
		{"127.0.0.01", Policy{}, ambiguous},
		{"127.0.0.1.", Policy{}, ambiguous},
		{"8.8.8.0x8", Policy{}, ambiguous},
		{"1.2.3.4.5", Policy{}, ambiguous},
		{"300.1.1.1", Policy{}, ambiguous},
		{"example.1", Policy{}, ambiguous},
		{"::1::", Policy{}, ambiguous},
		{"0x7f.1", loopbackAllowed, ambiguous},
		{"0x7f.1", Policy{Mode: ModeAny}, ""},

		{"１２７.0.0.1", Policy{}, "a loopback address"},
		{"127。0。0。1", Policy{}, "a loopback address"},
		{"127．0｡0．1", Policy{}, "a loopback address"},
		{"0ｘ7f.1", Policy{}, ambiguous},
		{"①②⑦.1", Policy{}, ambiguous},
		{"ｌｏｃａｌｈｏｓｔ", Policy{}, "a loopback address"},
	}
	for _, test := range tests {
		t.Run(test.policy.Mode.String()+" "+test.host, func(t *testing.T) {
			err := test.policy.CheckHost(test.host)
			if test.want == "" {
				if err != nil {
					t.Errorf("unexpected %v", err)
				}
				return
			}
			if posthaste.ErrorCode(err) != posthaste.CodeInvalid || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

func TestParseMode(t *testing.T) {
	for _, want := range []Mode{ModeAny, ModeInternal, ModePublic} {
		var got Mode
		if err := got.UnmarshalText([]byte(want.String())); err != nil || got != want {
			t.Errorf("read %s as %s, %v", want, got, err)
		}
	}
	if got := Mode(99).String(); got != "unknown" {
		t.Errorf("Mode(99) is %q", got)
	}
	_, err := ParseMode("Public")
	if want := `destinations "Public" is not known: any, internal and public are`; err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
}

func TestParsePrefix(t *testing.T) {
	tests := []struct{ text, want string }{
		{"10.0.0.0/8", "10.0.0.0/8"},
		{"10.1.2.3/8", "10.0.0.0/8"},
		{"10.1.2.3", "10.1.2.3/32"},
		{"fd00::/8", "fd00::/8"},
		{"::1", "::1/128"},
		{"::ffff:10.0.0.0/104", "10.0.0.0/8"},
		{"::ffff:10.1.2.3", "10.1.2.3/32"},
		{"", ""},
		{"10.0.0.0/33", ""},
		{"10.0.0", ""},
		{"fe80::1%eth0", ""},
		{"example.com", ""},
	}
	for _, test := range tests {
		got, err := ParsePrefix(test.text)
		switch {
		case test.want == "" && posthaste.ErrorCode(err) != posthaste.CodeInvalid:
			t.Errorf("ParsePrefix(%q) = %v, %v, want an error", test.text, got, err)
		case test.want != "" && (err != nil || got.String() != test.want):
			t.Errorf("ParsePrefix(%q) = %v, %v, want %s", test.text, got, err, test.want)
		}
	}
}

func FuzzParsePrefix(f *testing.F) {
	f.Add("10.0.0.0/8")
	f.Add("::ffff:10.0.0.0/104")
	f.Fuzz(func(t *testing.T, text string) {
		prefix, err := ParsePrefix(text)
		if err != nil {
			return
		}
		if again, err := ParsePrefix(prefix.String()); err != nil || again != prefix {
			t.Errorf("%q reads as %s, which reads as %s, %v", text, prefix, again, err)
		}
	})
}
