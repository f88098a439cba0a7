package sign

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"

	"posthaste"
)

const passwordLength = 32 // letters and digits, 190 bits

// Token identifies a user of the API. Its text is base64 of JSON, because the
// workflow SDKs look into it for the user's id (contract, messages 8).
//
// A read-only token needs a password of its own: who knows the password of a
// full token can write down that token.
//
// The names and the order of the fields are those of the JSON.
type Token struct {
	UserID   string // owner of all that is made with the token; see Check
	Password string // the secret; not empty
	ReadOnly bool   `json:",omitempty"` // every write is refused
}

// NewToken makes a full token with a random password.
func NewToken(entropy io.Reader, userID string) (Token, error) {
	password, err := alphanumeric(entropy, passwordLength)
	if err != nil {
		return Token{}, fmt.Errorf("make a token: %w", err)
	}
	return Token{UserID: userID, Password: password}, nil
}

// Encode returns the text of the token.
func (t Token) Encode() string {
	text, _ := json.Marshal(t) // no strings make it fail
	return base64.StdEncoding.EncodeToString(text)
}

// ParseToken reads the text of a token. The error has CodeInvalid and does not
// repeat the text, which is a secret.
func ParseToken(text string) (Token, error) {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || base64.StdEncoding.EncodeToString(raw) != text {
		return Token{}, posthaste.Invalidf("a token must be standard base64, with padding and without line breaks")
	}
	var t Token
	if err := json.Unmarshal(raw, &t); err != nil {
		return Token{}, posthaste.Invalidf(`a token must be base64 of JSON like {"UserID":"me","Password":"secret"}`)
	}
	return t, t.Check()
}

// Check returns an Error with CodeInvalid unless the token names a user whom a store can
// keep, and a password, which the error does not show.
func (t Token) Check() error {
	if t.UserID == "" || t.Password == "" {
		return posthaste.Invalidf("a token must name a UserID and a Password, neither of them empty")
	}
	if t.UserID == posthaste.ServerUser {
		return posthaste.Invalidf("a token must not name the UserID %q, which is the server's own: choose another", t.UserID)
	}
	return posthaste.CheckUserID("UserID", t.UserID)
}
