package sign

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"

	"posthaste"
)

const passwordLength = 32 // 190 bits

// Token identifies a user of the API. Its text is base64 of JSON, in the order of the fields,
// because the workflow SDKs read the user's id from it (contract, messages 8).
//
// A read-only token needs its own password: otherwise its owner could write the full token.
type Token struct {
	UserID   string // see Check
	Password string // not empty
	ReadOnly bool   `json:",omitempty"` // rejects writes
}

// NewToken returns a full token with a random password.
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

// ParseToken parses a token. The error has CodeInvalid and does not contain the text.
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

// Check returns an Error with CodeInvalid unless there are a valid user id and a password, which
// it does not show.
func (t Token) Check() error {
	if t.UserID == "" || t.Password == "" {
		return posthaste.Invalidf("a token must name a UserID and a Password, neither of them empty")
	}
	if t.UserID == posthaste.ServerUser {
		return posthaste.Invalidf("a token must not name the UserID %q, which is reserved for the server: choose another", t.UserID)
	}
	return posthaste.CheckUserID("UserID", t.UserID)
}
