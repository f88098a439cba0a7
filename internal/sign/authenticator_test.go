package sign_test

import (
	"testing"

	"posthaste"
	"posthaste/internal/sign"
)

// Contract, messages 8.
func TestAuthenticate(t *testing.T) {
	full := sign.Token{UserID: "me", Password: "secret"}
	reader := sign.Token{UserID: "me", Password: "other", ReadOnly: true}
	spaced := encoded(`{ "UserID": "you", "Password": "secret" }`)
	authenticator, err := sign.NewAuthenticator(full.Encode(), reader.Encode(), spaced)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name      string
		presented string
		user      string
		readOnly  bool
		ok        bool
	}{
		{"full token", full.Encode(), "me", false, true},
		{"read-only token", reader.Encode(), "me", true, true},
		{"spelled in its own way", spaced, "you", false, true},
		{"the same, spelled in another way", sign.Token{UserID: "you", Password: "secret"}.Encode(), "", false, false},
		{"read-only token without its mark", sign.Token{UserID: "me", Password: "other"}.Encode(), "", false, false},
		{"wrong password", sign.Token{UserID: "me", Password: "Secret"}.Encode(), "", false, false},
		{"another user", sign.Token{UserID: "them", Password: "secret"}.Encode(), "", false, false},
		{"with a blank", full.Encode() + " ", "", false, false},
		{"nothing", "", "", false, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			user, readOnly, ok := authenticator.Authenticate(test.presented)
			if user != test.user || readOnly != test.readOnly || ok != test.ok {
				t.Errorf("Authenticate = %q, %v, %v; want %q, %v, %v", user, readOnly, ok, test.user, test.readOnly, test.ok)
			}
		})
	}
}

func TestNewAuthenticatorNamesTheBadToken(t *testing.T) {
	good := sign.Token{UserID: "me", Password: "secret"}.Encode()
	_, err := sign.NewAuthenticator(good, "hunter2")
	want := "token 2 of 2: a token must be standard base64, with padding and without line breaks"
	if posthaste.ErrorCode(err) != posthaste.CodeInvalid || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func BenchmarkAuthenticate(b *testing.B) {
	token := sign.Token{UserID: "me", Password: "secret"}.Encode()
	authenticator, err := sign.NewAuthenticator(token)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		authenticator.Authenticate(token)
	}
}
