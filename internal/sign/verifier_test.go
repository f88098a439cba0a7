package sign_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"posthaste"
	"posthaste/internal/sign"
)

const (
	currentKey = "sig_7kYjw48mhY7kAjqNGcy6cr29RJ6r"
	nextKey    = "sig_5ZB6DVzB1wjE8S6rZ7eenA8Pdnhs"
	someURL    = "https://example.com/api?x=1"
	someBody   = `{"hello":"world"}`
)

var (
	somePair = sign.KeyPair{Current: currentKey, Next: nextKey}
	someTime = time.Unix(1700000000, 0)
)

// Contract, messages 4.
func TestVerifyAccepts(t *testing.T) {
	tests := []struct {
		name     string
		verifier sign.Verifier
		key      string
		url      string
		after    time.Duration
	}{
		{"current key", sign.Verifier{Keys: somePair}, currentKey, someURL, 0},
		{"next key", sign.Verifier{Keys: somePair}, nextKey, someURL, 0},
		{"only one key known", sign.Verifier{Keys: sign.KeyPair{Next: nextKey}}, nextKey, someURL, 0},
		{"any URL", sign.Verifier{Keys: somePair}, currentKey, "", 0},
		{"the last second", sign.Verifier{Keys: somePair}, currentKey, someURL, 300 * time.Second},
		{"late within the tolerance", sign.Verifier{Keys: somePair, Tolerance: time.Minute}, currentKey, someURL, 359 * time.Second},
		{"early within the tolerance", sign.Verifier{Keys: somePair, Tolerance: time.Minute}, currentKey, someURL, -59 * time.Second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			signature, err := sign.NewSigner(sign.SignerOptions{}).Sign(test.key, someURL, []byte(someBody), someTime)
			if err != nil {
				t.Fatal(err)
			}
			if err := test.verifier.Verify(signature, test.url, []byte(someBody), someTime.Add(test.after)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestVerifyExplains(t *testing.T) {
	good := jwt.MapClaims{
		"aud": "", "body": "k6I5cakU5erL8KjSUVTNownDwccvu5kU1Hxg88toFYg=", "exp": 1700000300, "iat": 1700000000,
		"iss": "Upstash", "jti": "jwt_test", "nbf": 0, "sub": someURL,
	}
	with := func(claim string, value any) jwt.MapClaims {
		changed := maps.Clone(good)
		changed[claim] = value
		if value == nil {
			delete(changed, claim)
		}
		return changed
	}
	made := func(claims jwt.MapClaims) string { return madeWith(t, jwt.SigningMethodHS256, currentKey, claims) }
	verifier := sign.Verifier{Keys: somePair}

	tests := []struct {
		name      string
		verifier  sign.Verifier
		signature string
		want      string // "" if accepted
	}{
		{"good", verifier, made(good), ""},
		{"issuer", verifier, made(with("iss", "Else")), `claim iss is "Else", expected "Upstash"`},
		{"no issuer", verifier, made(with("iss", nil)), `claim iss is "", expected "Upstash"`},
		{"URL", verifier, made(with("sub", "https://example.com/")),
			`claim sub is "https://example.com/", expected "https://example.com/api?x=1"`},
		{"expired", verifier, made(with("exp", 1699999999)),
			"claim exp is 2023-11-14T22:13:19Z, which was before 2023-11-14T22:13:20Z"},
		{"no expiry", verifier, made(with("exp", nil)), "claim exp is missing"},
		{"not yet", verifier, made(with("nbf", 1700000001)),
			"claim nbf is 2023-11-14T22:13:21Z, which is after 2023-11-14T22:13:20Z"},
		{"no nbf", verifier, made(with("nbf", nil)), ""},
		{"issued later", verifier, made(with("iat", 1700000001)),
			"claim iat is 2023-11-14T22:13:21Z, which is after 2023-11-14T22:13:20Z"},
		{"body", verifier, made(with("body", "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU=")),
			`claim body is "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU", but the hash of these 17 bytes is ` +
				`"k6I5cakU5erL8KjSUVTNownDwccvu5kU1Hxg88toFYg"`},
		{"body without padding", verifier, made(with("body", "k6I5cakU5erL8KjSUVTNownDwccvu5kU1Hxg88toFYg")), ""},
		{"other key", verifier, madeWith(t, jwt.SigningMethodHS256, "sig_other", good),
			"the signature was made with neither the current nor the next signing key"},
		{"other algorithm", verifier, madeWith(t, jwt.SigningMethodHS512, currentKey, good),
			"the signature is not a valid JWT: token is unverifiable: error while executing keyfunc: its alg is HS512, expected HS256"},
		{"no algorithm", verifier, "eyJhbGciOiJub25lIn0.eyJpc3MiOiJVcHN0YXNoIn0.",
			"the signature is not a valid JWT: token is unverifiable: error while executing keyfunc: its alg is none, expected HS256"},
		{"empty key is no key", sign.Verifier{Keys: sign.KeyPair{Current: nextKey}}, madeWith(t, jwt.SigningMethodHS256, "", good),
			"the signature was made with neither the current nor the next signing key"},
		{"no keys", sign.Verifier{}, made(good), "there is no signing key to verify with"},
		{"no JWT", verifier, "hello",
			"the signature is not a valid JWT: token is malformed: token contains an invalid number of segments"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := test.verifier.Verify(test.signature, someURL, []byte(someBody), someTime)
			switch {
			case test.want == "" && err != nil:
				t.Fatal(err)
			case test.want == "":
				return
			case posthaste.ErrorCode(err) != posthaste.CodeInvalid:
				t.Fatalf("error %v has not CodeInvalid", err)
			case err.Error() != test.want:
				t.Errorf("got  %s\nwant %s", err, test.want)
			}
		})
	}
}

// Contract, messages 4.
func TestVerifyRefusesNumericID(t *testing.T) {
	signature := madeWith(t, jwt.SigningMethodHS256, currentKey, jwt.MapClaims{"iss": "Upstash", "jti": 7})
	err := sign.Verifier{Keys: somePair}.Verify(signature, "", nil, someTime)
	if posthaste.ErrorCode(err) != posthaste.CodeInvalid || !strings.Contains(err.Error(), "jti") {
		t.Errorf("error %v does not name the claim jti", err)
	}
}

func madeWith(t *testing.T, method jwt.SigningMethod, key string, claims jwt.MapClaims) string {
	t.Helper()
	signature, err := jwt.NewWithClaims(method, claims).SignedString([]byte(key))
	if err != nil {
		t.Fatal(err)
	}
	return signature
}

func FuzzVerify(f *testing.F) {
	// The same signature in each process of the fuzzer.
	signer := sign.NewSigner(sign.SignerOptions{Entropy: strings.NewReader(strings.Repeat("entropy ", 100))})
	good, err := signer.Sign(currentKey, someURL, []byte(someBody), someTime)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add("..")
	f.Add("eyJhbGciOiJub25lIn0.eyJpc3MiOiJVcHN0YXNoIn0.")
	payload := strings.SplitN(good, ".", 3)[1]
	f.Fuzz(func(t *testing.T, signature string) {
		err := sign.Verifier{Keys: somePair}.Verify(signature, someURL, []byte(someBody), someTime)
		if err == nil && !strings.Contains(signature, payload) {
			t.Errorf("%q was accepted", signature)
		}
	})
}

// TestExplain checks that what is wrong with a signature is told all at once, and
// claims also of one that was made with another key.
func TestExplain(t *testing.T) {
	signature, err := sign.NewSigner(sign.SignerOptions{}).Sign(nextKey, someURL, []byte(someBody), someTime)
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		key, signature, url, body string
		after                     time.Duration
		want                      string // the names of what does not hold
	}{
		"all is well":  {nextKey, signature, someURL, someBody, 0, ""},
		"another key":  {currentKey, signature, someURL, someBody, 0, "signature"},
		"another body": {nextKey, signature, someURL, "{}", 0, "body"},
		"all wrong":    {currentKey, signature, "https://example.com", "{}", time.Hour, "signature exp sub body"},
		"too early":    {nextKey, signature, someURL, someBody, -time.Hour, "iat"},
		"no JWT":       {nextKey, "x", someURL, someBody, 0, "form"},
		"no algorithm": {nextKey, "eyJhbGciOiJub25lIn0.eyJpc3MiOiJVcHN0YXNoIn0.", someURL, someBody, 0, "alg"},
		"no URL":       {nextKey, signature, "", someBody, 0, "sub?"},
		"no scheme":    {nextKey, signature, strings.TrimPrefix(someURL, "https:"), someBody, 0, "sub?"},
		"another host": {nextKey, signature, "//example.org/", someBody, 0, "sub"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			checks, err := sign.Verifier{Keys: sign.KeyPair{Current: test.key}}.
				Explain(test.signature, test.url, []byte(test.body), someTime.Add(test.after))
			if err != nil {
				t.Fatal(err)
			}
			var wrong []string
			for _, check := range checks {
				if check.Problem != "" {
					wrong = append(wrong, check.Name)
				}
				if check.Unknown != "" {
					wrong = append(wrong, check.Name+"?")
				}
			}
			if got := strings.Join(wrong, " "); got != test.want {
				t.Errorf("%q do not hold, want %q", got, test.want)
			}
		})
	}
}
