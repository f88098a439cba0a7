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

// Verifier checks signatures the way receivers do, and says what is wrong with
// one that fails.
type Verifier struct {
	Keys      KeyPair       // Current is tried first; an empty key is left out
	Tolerance time.Duration // how far the clocks may differ
}

// receivedClaims are the claims as a receiver reads them.
type receivedClaims struct {
	jwt.RegisteredClaims
	Body string `json:"body"`
}

// Check is what a receiver checks of a signature, and whether it holds.
type Check struct {
	Name    string // "alg", "signature", or the name of a claim; "form" of what is no JWT
	Problem string // a sentence; "" if it holds
	Unknown string // why it could not be told whether it holds; "" if it could
}

// Explain checks everything a receiver does, in its order, for a request with this URL
// and body at this time. Of an empty URL it is unknown whether it is right, and so of one
// without a scheme, //HOST/PATH, that is right but for it. Of a signature that is no JWT as
// it should be, nothing but the form or the algorithm can be checked. The error is for a
// Verifier without a key.
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
	return posthaste.Invalidf("the signature is not a JWT as it should be: %v", err)
}

func newCheck(name string, problem error) Check {
	if problem == nil {
		return Check{Name: name}
	}
	return Check{Name: name, Problem: problem.Error()}
}

// Verify returns nil if the signature fits a request with this URL and body at this time.
// An empty URL is not compared, and of one without a scheme no scheme. The error has
// CodeInvalid and names the claim that does not fit, the first one if there are several.
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

// candidates returns the keys to try, for the one algorithm that is used.
func (v Verifier) candidates(token *jwt.Token) (any, error) {
	if token.Method != jwt.SigningMethodHS256 {
		return nil, fmt.Errorf("its alg is %s, expected HS256", token.Method.Alg())
	}
	var set jwt.VerificationKeySet
	for _, key := range []string{v.Keys.Current, v.Keys.Next} {
		if key != "" { // anyone can sign with no key
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
		return Check{Name: "sub", Unknown: fmt.Sprintf("claim sub is %.200q, and the request does not tell http from https", c.Subject)}
	default:
		return newCheck("sub", posthaste.Invalidf("claim sub is %.200q, expected %.200q", c.Subject, url))
	}
}

// withoutScheme returns the //HOST/PATH of an http or https URL, "" of any other.
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
