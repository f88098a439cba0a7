package sign_test

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"posthaste"
	"posthaste/internal/sign"
)

// Contract, messages 8 and decision 24.
func TestTokenText(t *testing.T) {
	tests := []struct {
		name  string
		token sign.Token
		text  string
	}{
		{"default development user", sign.Token{UserID: "defaultUser", Password: "defaultPassword"},
			"eyJVc2VySUQiOiJkZWZhdWx0VXNlciIsIlBhc3N3b3JkIjoiZGVmYXVsdFBhc3N3b3JkIn0="},
		{"first test user", sign.Token{UserID: "testUser1", Password: "testPassword"},
			"eyJVc2VySUQiOiJ0ZXN0VXNlcjEiLCJQYXNzd29yZCI6InRlc3RQYXNzd29yZCJ9"},
		{"second test user", sign.Token{UserID: "testUser2", Password: "testPassword"},
			"eyJVc2VySUQiOiJ0ZXN0VXNlcjIiLCJQYXNzd29yZCI6InRlc3RQYXNzd29yZCJ9"},
		{"third test user", sign.Token{UserID: "testUser3", Password: "testPassword"},
			"eyJVc2VySUQiOiJ0ZXN0VXNlcjMiLCJQYXNzd29yZCI6InRlc3RQYXNzd29yZCJ9"},
		{"read-only", sign.Token{UserID: "me", Password: "pw", ReadOnly: true}, encoded(`{"UserID":"me","Password":"pw","ReadOnly":true}`)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := test.token.Encode(); got != test.text {
				t.Errorf("Encode = %s\nwant     %s", got, test.text)
			}
			if got, err := sign.ParseToken(test.text); err != nil || got != test.token {
				t.Errorf("ParseToken = %+v, %v; want %+v", got, err, test.token)
			}
		})
	}
}

func TestParseTokenErrors(t *testing.T) {
	const (
		notBase64 = "a token must be standard base64, with padding and without line breaks"
		notJSON   = `a token must be base64 of JSON like {"UserID":"me","Password":"secret"}`
		notNamed  = "a token must name a UserID and a Password, neither of them empty"
	)
	tests := []struct {
		name string
		text string
		want string
	}{
		{"no base64", "hunter2!", notBase64},
		{"no padding", strings.TrimRight(encoded(`{"UserID":"me","Password":"pass"}`+" "), "="), notBase64},
		{"line break", encoded(`{"UserID":"me","Password":"pass"}`) + "\n", notBase64},
		{"URL alphabet", "eyJVc2VySUQiOiI_Pz8iLCJQYXNzd29yZCI6InB3In0=", notBase64},
		{"empty", "", notJSON},
		{"no JSON", encoded("me:secret"), notJSON},
		{"no object", encoded(`"me"`), notJSON},
		{"user is a number", encoded(`{"UserID":1,"Password":"secret"}`), notJSON},
		{"more after the object", encoded(`{"UserID":"me","Password":"secret"} {}`), notJSON},
		{"no user", encoded(`{"Password":"secret"}`), notNamed},
		{"empty user", encoded(`{"UserID":"","Password":"secret"}`), notNamed},
		{"no password", encoded(`{"UserID":"me"}`), notNamed},
		{"nothing", encoded(`null`), notNamed},
		{"a user with a NUL", encoded(`{"UserID":"me\u0000","Password":"secret"}`),
			`UserID "me\x00" is invalid: UTF-8 without control characters is accepted`},
		{"a user of 300 bytes", encoded(`{"UserID":"` + strings.Repeat("x", 300) + `","Password":"secret"}`),
			`UserID "` + strings.Repeat("x", 40) + `"… has 300 bytes: at most 255 are accepted`},
		{"the server's own user", encoded(`{"UserID":"posthaste:server","Password":"secret"}`),
			`a token must not name the UserID "posthaste:server", which is reserved for the server: choose another`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := sign.ParseToken(test.text)
			if posthaste.ErrorCode(err) != posthaste.CodeInvalid || err.Error() != test.want {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
}

func TestNewToken(t *testing.T) {
	first, err1 := sign.NewToken(rand.Reader, "me")
	second, err2 := sign.NewToken(rand.Reader, "me")
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if first.UserID != "me" || first.ReadOnly || len(first.Password) != 32 {
		t.Errorf("token %+v", first)
	}
	if first.Password == second.Password {
		t.Error("two tokens have the same password")
	}
	if _, err := sign.NewToken(iotest.ErrReader(io.ErrClosedPipe), "me"); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("error %v, want that of the entropy", err)
	}
}

func FuzzParseToken(f *testing.F) {
	f.Add(sign.Token{UserID: "me", Password: "secret", ReadOnly: true}.Encode())
	f.Add(encoded(`{"UserID":"\ud800","Password":"<&>"}`))
	f.Add("====")
	f.Fuzz(func(t *testing.T, text string) {
		token, err := sign.ParseToken(text)
		if err != nil {
			if posthaste.ErrorCode(err) != posthaste.CodeInvalid {
				t.Fatalf("error %v has not CodeInvalid", err)
			}
			return
		}
		if again, err := sign.ParseToken(token.Encode()); err != nil || again != token {
			t.Fatalf("%+v became %+v, %v", token, again, err)
		}
	})
}

func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
