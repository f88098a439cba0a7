package sign

import (
	"crypto/sha256"
	"fmt"
)

// Authenticator checks tokens. It is immutable and safe for concurrent use.
//
// It looks up the SHA-256 of the presented text, so timing depends on hashes and does not help to
// guess a token.
type Authenticator struct {
	accepted map[[sha256.Size]byte]identity
}

type identity struct {
	user     string
	readOnly bool
}

// NewAuthenticator accepts the given tokens. For an invalid one it returns an error with
// CodeInvalid that has its index.
func NewAuthenticator(texts ...string) (*Authenticator, error) {
	a := &Authenticator{accepted: make(map[[sha256.Size]byte]identity, len(texts))}
	for i, text := range texts {
		token, err := ParseToken(text)
		if err != nil {
			return nil, fmt.Errorf("token %d of %d: %w", i+1, len(texts), err)
		}
		a.accepted[sha256.Sum256([]byte(text))] = identity{token.UserID, token.ReadOnly}
	}
	return a, nil
}

// Authenticate returns the token's user and whether it is read-only; ok is false for an unknown
// token.
func (a *Authenticator) Authenticate(presented string) (user string, readOnly, ok bool) {
	id, ok := a.accepted[sha256.Sum256([]byte(presented))]
	return id.user, id.readOnly, ok
}
