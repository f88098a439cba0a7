package sign

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
	"strings"

	"posthaste"
)

const (
	keyPrefix = "sig_"
	keyLength = 28 // 166 bits

	alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// KeyPair is a user's signing keys. Current signs; receivers also accept Next, which makes
// rotation possible.
type KeyPair struct {
	Current string `json:"current"`
	Next    string `json:"next"`
}

// NewKey returns a random key: "sig_" and 28 letters and digits.
func NewKey(entropy io.Reader) (string, error) {
	random, err := alphanumeric(entropy, keyLength)
	if err != nil {
		return "", fmt.Errorf("make a signing key: %w", err)
	}
	return keyPrefix + random, nil
}

func newKeyPair(entropy io.Reader) (KeyPair, error) {
	current, err := NewKey(entropy)
	if err != nil {
		return KeyPair{}, err
	}
	next, err := NewKey(entropy)
	return KeyPair{Current: current, Next: next}, err
}

// Check returns an Error with CodeInvalid for a key of the wrong form. It does not show keys.
func (p KeyPair) Check() error {
	if !isKey(p.Current) {
		return posthaste.Invalidf("the current signing key must be sig_ and %d letters or digits", keyLength)
	}
	if !isKey(p.Next) {
		return posthaste.Invalidf("the next signing key must be sig_ and %d letters or digits", keyLength)
	}
	return nil
}

func isKey(text string) bool {
	random, ok := strings.CutPrefix(text, keyPrefix)
	return ok && len(random) == keyLength && strings.Trim(random, alphabet) == ""
}

// alphanumeric returns random letters and digits. With 32 bits for each, the bias is below one in
// 60 million.
func alphanumeric(entropy io.Reader, length int) (string, error) {
	const perLetter = 4
	random := make([]byte, perLetter*length)
	if _, err := io.ReadFull(entropy, random); err != nil {
		return "", err
	}
	text := make([]byte, length)
	for i := range text {
		letter, _ := bits.Mul32(binary.BigEndian.Uint32(random[perLetter*i:]), uint32(len(alphabet)))
		text[i] = alphabet[letter]
	}
	return string(text), nil
}
