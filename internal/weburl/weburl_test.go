package weburl_test

import (
	"net/url"
	"strings"
	"testing"

	"posthaste"
	"posthaste/internal/weburl"
)

// Contract, decision 30.
func TestASCII(t *testing.T) {
	const bad = ""
	tests := map[string]struct{ text, want string }{
		"ASCII stays":                         {"HTTP://Me:p%20w@EXAMPLE.com:80//a/../{b}|\"^`?q=[x]&r=%zz#f", "HTTP://Me:p%20w@EXAMPLE.com:80//a/../{b}|\"^`?q=[x]&r=%zz#f"},
		"path":                                {"http://x.test/größe", "http://x.test/gr%C3%B6%C3%9Fe"},
		"path that is partly encoded":         {"http://x.test/gr%C3%B6ße", "http://x.test/gr%C3%B6%C3%9Fe"},
		"query":                               {"http://x.test?q=São&r=患者", "http://x.test?q=S%C3%A3o&r=%E6%82%A3%E8%80%85"},
		"fragment":                            {"http://x.test/#ü", "http://x.test/#%C3%BC"},
		"user":                                {"http://jösé:ñ@x.test/", "http://j%C3%B6s%C3%A9:%C3%B1@x.test/"},
		"bytes that are no UTF-8":             {"http://x.test/\xe9?\xff", "http://x.test/%E9?%FF"},
		"host":                                {"https://bücher.example/a", "https://xn--bcher-kva.example/a"},
		"host and port":                       {"https://bücher.example:8443", "https://xn--bcher-kva.example:8443"},
		"host with capital letters":           {"https://BÜCHER.Example", "https://xn--bcher-kva.example"},
		"host with sharp s, not transitional": {"https://faß.example", "https://xn--fa-hia.example"},
		"host of full width":                  {"https://ｅｘａｍｐｌｅ。ｃｏｍ/", "https://example.com/"},
		"host that maps to an address":        {"http://１２７．０．０．１/", "http://127.0.0.1/"},
		"host of an emoji":                    {"http://🚀.example/", "http://xn--158h.example/"},
		"host with a dot at its end":          {"http://bücher.example./", "http://xn--bcher-kva.example./"},
		"host with an underscore":             {"http://a_b.bücher.example/", "http://a_b.xn--bcher-kva.example/"},
		"host that is percent-encoded":        {"http://b%C3%BCcher.example/", "http://xn--bcher-kva.example/"},
		"host of ASCII, percent-encoded":      {"http://%65xample.com/", "http://example.com/"},
		"address in brackets":                 {"http://[::1]:80/ä", "http://[::1]:80/%C3%A4"},
		"address with a zone":                 {"http://[fe80::1%25eth0]/", "http://[fe80::1%25eth0]/"},
		"no host":                             {"http:///ä", "http:///%C3%A4"},
		"no absolute URL":                     {"größe", "gr%C3%B6%C3%9Fe"},

		"host with a slash of full width":      {"http://a／b.test/", bad},
		"host with an at sign of full width":   {"http://a＠b.test/", bad},
		"host with a colon of full width":      {"http://ä：80/", bad},
		"host with a percent of full width":    {"http://ä％41.test/", bad},
		"host with a slash, percent-encoded":   {"http://a%2Fb.test/", bad},
		"host with a line break, encoded":      {"http://a%0Ab.test/", bad},
		"host with a broken escape":            {"http://a%zz.test/", bad},
		"host that is no UTF-8":                {"http://a\xff.test/", bad},
		"host that maps to nothing":            {"http://\u00ad/", bad},
		"host with a joiner where none may be": {"http://a\u200db.test/", bad},
		"host in two directions":               {"http://אa.test/", bad},
		"label that is too long":               {"http://" + strings.Repeat("ä", 63) + ".test/", bad},
		"bad punycode beside others":           {"http://xn--a.ä.test/", bad},
		"port of full width":                   {"http://x.test:８０/", bad},
		"brackets with something else":         {"http://[ä]/", bad},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := weburl.ASCII("destination", test.text)
			if test.want == bad {
				if posthaste.ErrorCode(err) != posthaste.CodeInvalid {
					t.Errorf("%q, %v; want CodeInvalid", got, err)
				}
				return
			}
			if err != nil || got != test.want {
				t.Errorf("%q, %v; want %q", got, err, test.want)
			}
		})
	}
}

func TestSentence(t *testing.T) {
	_, err := weburl.ASCII("Upstash-Callback", "http://me:secret@a／b.test/x?secret")
	want := `Upstash-Callback has the host "a／b.test", which is not a valid host name`
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestHost(t *testing.T) {
	for given, want := range map[string]string{
		"example.com:80": "example.com:80", "Bücher.example:80": "xn--bcher-kva.example:80", "a／b": "a／b", "": "",
	} {
		if got := weburl.Host(given); got != want {
			t.Errorf("%q becomes %q, want %q", given, got, want)
		}
	}
}

// FuzzASCII checks that nothing outside ASCII is left, that ASCII stays, and that no host is
// another one afterwards to whom it is handed.
func FuzzASCII(f *testing.F) {
	for _, seed := range []string{"http://x.test/größe?q#f", "https://u:p@bücher.example:80/", "http://a／b@c", "http://[::1]", "a://%C3%BC", "://", "\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := weburl.ASCII("url", text)
		if err != nil {
			return
		}
		if weburl.Escape(got) != got {
			t.Fatalf("%q becomes %q", text, got)
		}
		if again, err := weburl.ASCII("url", got); err != nil || again != got {
			t.Fatalf("%q becomes %q, and then %q, %v", text, got, again, err)
		}
		parsed, err := url.Parse(got)
		if err != nil {
			return
		}
		_, rest, absolute := strings.Cut(got, "://")
		if host, _, _ := strings.Cut(rest, "/"); absolute && weburl.Escape(text) != text && parsed.Host != "" && !strings.Contains(host, parsed.Host) {
			t.Fatalf("%q becomes %q, of the host %q", text, got, parsed.Host)
		}
	})
}
