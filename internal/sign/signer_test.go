package sign

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

const testKey = "sig_7kYjw48mhY7kAjqNGcy6cr29RJ6r"

var issuedAt = time.Date(2023, time.November, 14, 22, 13, 20, 999_999_999, time.UTC) // 1700000000.999…

// Contract, messages 4.
func TestSignatureVector(t *testing.T) {
	c := claims{
		id:       "jwt_test",
		url:      "https://example.com/api?x=1",
		bodyHash: sha256.Sum256([]byte(`{"hello":"world"}`)),
		issuedAt: 1700000000,
	}
	header, payload, mac := parts(t, NewSigner(SignerOptions{}).pen(testKey).sign(&c))
	if want := `{"alg":"HS256","typ":"JWT"}`; header != want {
		t.Errorf("header %s\nwant   %s", header, want)
	}
	wantPayload := `{"aud":"","body":"k6I5cakU5erL8KjSUVTNownDwccvu5kU1Hxg88toFYg=","exp":1700000300,"iat":1700000000,` +
		`"iss":"Upstash","jti":"jwt_test","nbf":0,"sub":"https://example.com/api?x=1"}`
	if payload != wantPayload {
		t.Errorf("payload %s\nwant    %s", payload, wantPayload)
	}
	if want := "LADQEEEWZpCANHh8hgoWWc8e8rrXcgpileJd6RLAFPM"; mac != want {
		t.Errorf("signature %s, want %s", mac, want)
	}
}

// Contract, messages 4, U-55 and decision 25.
func TestSign(t *testing.T) {
	tests := []struct {
		name      string
		options   SignerOptions
		url       string
		body      string
		notBefore float64
		bodyHash  string
	}{
		{name: "body", url: "https://example.com", body: `{"hello":"world"}`,
			bodyHash: "k6I5cakU5erL8KjSUVTNownDwccvu5kU1Hxg88toFYg="},
		{name: "empty body", url: "https://example.com/",
			bodyHash: "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU="},
		{name: "URL byte for byte", url: `http://Example.com:80//a/../b?x=1&y=<"\>&z=ü#f`,
			bodyHash: "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU="},
		{name: "nbf for strict verifiers", options: SignerOptions{StampNotBefore: true}, url: "https://example.com",
			notBefore: 1700000000, bodyHash: "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU="},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			signature, err := NewSigner(test.options).Sign(testKey, test.url, []byte(test.body), issuedAt)
			if err != nil {
				t.Fatal(err)
			}
			got := readWithLibrary(t, signature)
			if id, _ := got["jti"].(string); !regexp.MustCompile(`^jwt_[0-9A-Za-z]{22}$`).MatchString(id) {
				t.Errorf("jti = %v", got["jti"])
			}
			want := map[string]any{
				"aud": "", "iss": "Upstash", "sub": test.url, "body": test.bodyHash,
				"iat": 1700000000.0, "exp": 1700000300.0, "nbf": test.notBefore, "jti": got["jti"],
			}
			if len(got) != len(want) {
				t.Errorf("claims %v", got)
			}
			for name, value := range want {
				if got[name] != value {
					t.Errorf("claim %s = %v, want %v", name, got[name], value)
				}
			}
		})
	}
}

// Contract, messages 7.
func TestSignGivesEachSignatureItsID(t *testing.T) {
	signer := NewSigner(SignerOptions{})
	first, err1 := signer.Sign(testKey, "https://example.com", nil, issuedAt)
	second, err2 := signer.Sign(testKey, "https://example.com", nil, issuedAt)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if readWithLibrary(t, first)["jti"] == readWithLibrary(t, second)["jti"] {
		t.Error("two signatures have the same jti")
	}
}

func TestSignReadsItsEntropy(t *testing.T) {
	signer := NewSigner(SignerOptions{Entropy: bytes.NewReader(make([]byte, 1000))})
	signature, err := signer.Sign(testKey, "https://example.com", nil, issuedAt)
	if err != nil {
		t.Fatal(err)
	}
	if id := readWithLibrary(t, signature)["jti"]; id != "jwt_0000000000000000000000" {
		t.Errorf("jti = %v", id)
	}
	broken := NewSigner(SignerOptions{Entropy: iotest.ErrReader(io.ErrClosedPipe)})
	if _, err := broken.Sign(testKey, "https://example.com", nil, issuedAt); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("error %v, want that of the entropy", err)
	}
}

func FuzzSign(f *testing.F) {
	f.Add("https://example.com/a?b=c&d", []byte("body"))
	f.Add("\x00\xff\"\\\u2028", []byte{})
	signer := NewSigner(SignerOptions{})
	f.Fuzz(func(t *testing.T, url string, body []byte) {
		signature, err := signer.Sign(testKey, url, body, issuedAt)
		if err != nil {
			t.Fatal(err)
		}
		wantURL := string([]rune(url)) // each byte that is not UTF-8 is U+FFFD
		if got := readWithLibrary(t, signature)["sub"]; got != wantURL {
			t.Errorf("sub = %q, want %q", got, wantURL)
		}
		verifier := Verifier{Keys: KeyPair{Current: testKey}}
		if err := verifier.Verify(signature, wantURL, body, issuedAt); err != nil {
			t.Error(err)
		}
	})
}

// TestSignWithManyKeys checks that what is stored of a signature is not taken for one
// with another key, or by two signatures at once.
func TestSignWithManyKeys(t *testing.T) {
	signer := NewSigner(SignerOptions{})
	var group sync.WaitGroup
	for signature := range 200 {
		group.Go(func() {
			key := fmt.Sprint("key ", signature%3)
			url := fmt.Sprint("https://example.com/", signature)
			text, err := signer.Sign(key, url, nil, issuedAt)
			if err != nil {
				t.Error(err)
			}
			verifier := Verifier{Keys: KeyPair{Current: key}}
			if err := verifier.Verify(text, url, nil, issuedAt); err != nil {
				t.Errorf("signature %d: %v", signature, err)
			}
		})
	}
	group.Wait()
}

func BenchmarkSign(b *testing.B) {
	signer := NewSigner(SignerOptions{})
	body := bytes.Repeat([]byte("x"), 512)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := signer.Sign(testKey, "https://example.com/api?x=1&y=2", body, issuedAt); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSignFloor is what hashing alone takes with an HMAC that is set up each
// time: the hash of the body and the code of some 330 bytes of text.
func BenchmarkSignFloor(b *testing.B) {
	body := bytes.Repeat([]byte("x"), 512)
	text := strings.Repeat("x", 330)
	b.ReportAllocs()
	for b.Loop() {
		sha256.Sum256(body)
		if _, err := jwt.SigningMethodHS256.Sign(text, []byte(testKey)); err != nil {
			b.Fatal(err)
		}
	}
}

// readWithLibrary checks a signature of testKey with golang-jwt, one second
// after its issue, and returns its claims.
func readWithLibrary(t *testing.T, signature string) jwt.MapClaims {
	t.Helper()
	claims := jwt.MapClaims{}
	_, err := jwt.ParseWithClaims(signature, claims, func(*jwt.Token) (any, error) { return []byte(testKey), nil },
		jwt.WithValidMethods([]string{"HS256"}),
		jwt.WithIssuer("Upstash"),
		jwt.WithIssuedAt(),
		jwt.WithExpirationRequired(),
		jwt.WithStrictDecoding(),
		jwt.WithTimeFunc(func() time.Time { return issuedAt.Add(time.Second) }))
	if err != nil {
		t.Fatal(err)
	}
	return claims
}

// parts returns the header and the payload of a JWT as text, and its third part
// as it is.
func parts(t *testing.T, token string) (header, payload, mac string) {
	t.Helper()
	encoded := strings.Split(token, ".")
	if len(encoded) != 3 {
		t.Fatalf("%q has %d parts", token, len(encoded))
	}
	var decoded [2]string
	for i := range decoded {
		text, err := base64.RawURLEncoding.DecodeString(encoded[i])
		if err != nil {
			t.Fatal(err)
		}
		decoded[i] = string(text)
	}
	return decoded[0], decoded[1], encoded[2]
}
