package sign

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"posthaste"
)

// Verifier checks signatures as receivers do, and explains failures.
type Verifier struct {
	Keys      KeyPair       // empty keys are ignored
	Tolerance time.Duration // allowed clock difference
}

// receivedClaims are parsed claims.
type receivedClaims struct {
	jwt.RegisteredClaims
	Body string `json:"body"`
}

// Check is the result of one check.
type Check struct {
	Name    string // "alg", "signature", a claim, or "form" if it is no JWT
	Problem string // "" if it passes
	Unknown string // why it could not be checked
}

// Explain runs a receiver's checks in order. Without a URL, or for one without scheme
// (//HOST/PATH), the URL may remain unknown. If the signature is no valid JWT, only form or
// algorithm is checked. The error is for a Verifier without keys.
func (v Verifier) Explain(signature, url string, body []byte, now time.Time) ([]Check, error) {
	if v.Keys == (KeyPair{}) {
		return nil, posthaste.Invalidf("there is no signing key to verify with")
	}
	var c receivedClaims
	_, err := jwt.ParseWithClaims(signature, &c, v.candidates, jwt.WithoutClaimsValidation())
	var key error
	switch {
	case errors.Is(err, jwt.ErrTokenSignatureInvalid):
		key = posthaste.Invalidf("the signature was made with neither the current nor the next signing key")
	case errors.Is(err, jwt.ErrTokenUnverifiable):
		return []Check{newCheck("alg", notAsItShouldBe(err))}, nil
	case err != nil:
		return []Check{newCheck("form", notAsItShouldBe(err))}, nil
	}
	return []Check{
		newCheck("alg", nil),
		newCheck("signature", key),
		newCheck("iss", c.checkIssuer()),
		newCheck("exp", c.checkExpiry(now, v.Tolerance)),
		newCheck("nbf", c.checkNotBefore(now, v.Tolerance)),
		newCheck("iat", c.checkIssue(now, v.Tolerance)),
		c.checkURL(url),
		newCheck("body", c.checkBody(body)),
	}, nil
}

func notAsItShouldBe(err error) error {
	return posthaste.Invalidf("the signature is not a valid JWT: %v", err)
}

func newCheck(name string, problem error) Check {
	if problem == nil {
		return Check{Name: name}
	}
	return Check{Name: name, Problem: problem.Error()}
}

// Verify returns nil if the signature matches, else an Error with CodeInvalid for the first
// failed check. An empty URL, or a missing scheme, is not compared.
func (v Verifier) Verify(signature, url string, body []byte, now time.Time) error {
	checks, err := v.Explain(signature, url, body, now)
	if err != nil {
		return err
	}
	for _, check := range checks {
		if check.Problem != "" {
			return posthaste.Invalidf("%s", check.Problem)
		}
	}
	return nil
}

// candidates returns the keys to try with HS256.
func (v Verifier) candidates(token *jwt.Token) (any, error) {
	if token.Method != jwt.SigningMethodHS256 {
		return nil, fmt.Errorf("its alg is %s, expected HS256", token.Method.Alg())
	}
	var set jwt.VerificationKeySet
	for _, key := range []string{v.Keys.Current, v.Keys.Next} {
		if key != "" { // an empty key proves nothing
			set.Keys = append(set.Keys, []byte(key))
		}
	}
	return set, nil
}

func (c *receivedClaims) checkIssuer() error {
	if c.Issuer != issuer {
		return posthaste.Invalidf("claim iss is %.100q, expected %q", c.Issuer, issuer)
	}
	return nil
}

func (c *receivedClaims) checkExpiry(now time.Time, tolerance time.Duration) error {
	switch {
	case c.ExpiresAt == nil:
		return posthaste.Invalidf("claim exp is missing")
	case now.Add(-tolerance).After(c.ExpiresAt.Time):
		return posthaste.Invalidf("claim exp is %s, which was before %s", stamp(c.ExpiresAt.Time), stamp(now))
	}
	return nil
}

func (c *receivedClaims) checkNotBefore(now time.Time, tolerance time.Duration) error {
	if c.NotBefore != nil && now.Add(tolerance).Before(c.NotBefore.Time) {
		return posthaste.Invalidf("claim nbf is %s, which is after %s", stamp(c.NotBefore.Time), stamp(now))
	}
	return nil
}

func (c *receivedClaims) checkIssue(now time.Time, tolerance time.Duration) error {
	if c.IssuedAt != nil && now.Add(tolerance).Before(c.IssuedAt.Time) {
		return posthaste.Invalidf("claim iat is %s, which is after %s", stamp(c.IssuedAt.Time), stamp(now))
	}
	return nil
}

func (c *receivedClaims) checkURL(url string) Check {
	switch {
	case url == "":
		return Check{Name: "sub", Unknown: fmt.Sprintf("claim sub is %.200q, and there is no URL to compare it with", c.Subject)}
	case url == c.Subject:
		return Check{Name: "sub"}
	case url == withoutScheme(c.Subject):
		return Check{Name: "sub", Unknown: fmt.Sprintf("claim sub is %.200q, and the request does not say whether it came by http or https", c.Subject)}
	default:
		return newCheck("sub", posthaste.Invalidf("claim sub is %.200q, expected %.200q", c.Subject, url))
	}
}

// withoutScheme returns //HOST/PATH of an http or https URL, else "".
func withoutScheme(url string) string {
	scheme, rest, _ := strings.Cut(url, ":")
	if scheme != "http" && scheme != "https" {
		return ""
	}
	return rest
}

func (c *receivedClaims) checkBody(body []byte) error {
	sum := sha256.Sum256(body)
	want := base64.RawURLEncoding.EncodeToString(sum[:])
	if got := strings.TrimRight(c.Body, "="); got != want {
		return posthaste.Invalidf("claim body is %.100q, but the hash of these %d bytes is %q", got, len(body), want)
	}
	return nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
