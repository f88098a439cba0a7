package sign

import (
	"crypto/sha256"
	"fmt"
)

// Authenticator knows the accepted tokens. It never changes and may be used by
// many goroutines.
//
// It keeps the SHA-256 of each token's text and looks up the hash of what is
// presented, so the time that takes depends on hashes alone. A guess cannot be
// improved by it: a text closer to the secret has no closer hash. What timing
// might show of an accepted hash would help only to test guesses elsewhere, and
// the passwords of NewToken are beyond guessing. Secrets themselves are never
// compared, which would have to take constant time.
type Authenticator struct {
	accepted map[[sha256.Size]byte]identity
}

// identity is what a token stands for.
type identity struct {
	user     string
	readOnly bool
}

// NewAuthenticator accepts tokens by their texts, byte for byte. A text that is
// no token is an error with CodeInvalid that says which of them it is.
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

// Authenticate returns the user whose token was presented and whether the token
// only reads. It returns false for anything but an accepted token.
func (a *Authenticator) Authenticate(presented string) (user string, readOnly, ok bool) {
	id, ok := a.accepted[sha256.Sum256([]byte(presented))]
	return id.user, id.readOnly, ok
}
