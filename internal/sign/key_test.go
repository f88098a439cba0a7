package sign_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"

	"posthaste"
	"posthaste/internal/sign"
)

// Contract, messages 7.
func TestNewKey(t *testing.T) {
	form := regexp.MustCompile(`^sig_[0-9A-Za-z]{28}$`)
	seen := map[string]bool{}
	letters := map[rune]bool{}
	for range 200 {
		key, err := sign.NewKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if !form.MatchString(key) || seen[key] {
			t.Fatalf("key %q", key)
		}
		seen[key] = true
		for _, letter := range key[len("sig_"):] {
			letters[letter] = true
		}
	}
	if len(letters) != 62 {
		t.Errorf("200 keys use %d of 62 letters and digits", len(letters))
	}
}

func TestNewKeyIsMadeOfItsEntropy(t *testing.T) {
	tests := []struct {
		name string
		of   byte
		want string
	}{
		{"lowest", 0x00, "sig_" + strings.Repeat("0", 28)},
		{"middle", 0x80, "sig_" + strings.Repeat("V", 28)},
		{"highest", 0xff, "sig_" + strings.Repeat("z", 28)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			key, err := sign.NewKey(bytes.NewReader(bytes.Repeat([]byte{test.of}, 112)))
			if err != nil || key != test.want {
				t.Errorf("NewKey = %q, %v; want %q", key, err, test.want)
			}
		})
	}
}

func TestNewKeyWithoutEntropy(t *testing.T) {
	if key, err := sign.NewKey(iotest.ErrReader(io.ErrClosedPipe)); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("NewKey = %q, %v; want the error of the entropy", key, err)
	}
}

func TestKeyPairCheck(t *testing.T) {
	tests := []struct {
		name string
		pair sign.KeyPair
		want string // "" if good
	}{
		{"good", somePair, ""},
		{"no current", sign.KeyPair{Next: nextKey}, "the current signing key must be sig_ and 28 letters or digits"},
		{"no next", sign.KeyPair{Current: currentKey}, "the next signing key must be sig_ and 28 letters or digits"},
		{"short", sign.KeyPair{Current: currentKey[:31], Next: nextKey}, "the current signing key must be sig_ and 28 letters or digits"},
		{"long", sign.KeyPair{Current: currentKey, Next: nextKey + "x"}, "the next signing key must be sig_ and 28 letters or digits"},
		{"other prefix", sign.KeyPair{Current: "key_" + currentKey[4:], Next: nextKey}, "the current signing key must be sig_ and 28 letters or digits"},
		{"other characters", sign.KeyPair{Current: currentKey, Next: nextKey[:31] + "-"}, "the next signing key must be sig_ and 28 letters or digits"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := test.pair.Check()
			if test.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if posthaste.ErrorCode(err) != posthaste.CodeInvalid || err.Error() != test.want {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
}
