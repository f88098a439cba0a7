package sign

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"strconv"
	"sync"
	"time"
)

const (
	issuer   = "Upstash" // receivers demand it, whoever serves them
	lifetime = 300       // seconds from issue to expiry
	idPrefix = "jwt_"
	idLength = 22 // letters and digits after the prefix, 130 bits
)

// signatureHeader is the first part of every signature: {"alg":"HS256","typ":"JWT"}.
const signatureHeader = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9"

// SignerOptions configure a Signer.
type SignerOptions struct {
	// Entropy is read for the id of each signature, by many goroutines at once.
	// Nil means crypto/rand.
	Entropy io.Reader

	// StampNotBefore sets the claim nbf to the time of issue. It is 0 otherwise,
	// which verifiers that require the claim and take 0 for a missing one refuse.
	StampNotBefore bool
}

// Signer makes the signatures of delivered requests. It may be used by many
// goroutines.
type Signer struct {
	entropy        io.Reader
	stampNotBefore bool
	pens           sync.Pool // of *pen
}

// NewSigner returns a Signer.
func NewSigner(options SignerOptions) *Signer {
	s := &Signer{entropy: options.Entropy, stampNotBefore: options.StampNotBefore}
	if s.entropy == nil {
		s.entropy = rand.Reader
	}
	return s
}

// Sign returns the signature, issued now, of a request that delivers the body
// to the URL: a compact JWT (contract, messages 4). The key is the text of a
// signing key, and the URL is that of the message, byte for byte. Each attempt
// is signed anew: a signature is good for five minutes.
//
// The URL stands in JSON, which cannot hold bytes that are not UTF-8; each such
// byte becomes U+FFFD. The error is one of reading entropy.
func (s *Signer) Sign(key, url string, body []byte, now time.Time) (string, error) {
	id, err := alphanumeric(s.entropy, idLength)
	if err != nil {
		return "", fmt.Errorf("make a signature id: %w", err)
	}
	c := claims{id: idPrefix + id, url: url, bodyHash: sha256.Sum256(body), issuedAt: now.Unix()}
	if s.stampNotBefore {
		c.notBefore = c.issuedAt
	}
	p := s.pen(key)
	defer s.pens.Put(p)
	return p.sign(&c), nil
}

// pen writes signatures with a key. It is kept from one signature to the next, which
// most often is made with the same key: to set the HMAC up, and to find room for the
// text, takes much of the time of a signature.
type pen struct {
	key     string
	mac     hash.Hash
	payload []byte // scratch
	token   []byte // scratch
}

// pen returns a pen for the key that nobody else has.
func (s *Signer) pen(key string) *pen {
	if p, ok := s.pens.Get().(*pen); ok && p.key == key {
		return p
	}
	return &pen{key: key, mac: hmac.New(sha256.New, []byte(key))}
}

// claims are what a signature says. Times are Unix seconds.
type claims struct {
	id        string
	url       string
	bodyHash  [sha256.Size]byte
	issuedAt  int64
	notBefore int64
}

// sign is written out for the one shape there is, because it runs once per
// attempt: the JWT library, which the tests check it with, takes several times
// as long on top of the hashing that both have to do.
func (p *pen) sign(c *claims) string {
	p.payload = c.appendJSON(p.payload[:0])
	p.token = append(p.token[:0], signatureHeader...)
	p.token = append(p.token, '.')
	p.token = base64.RawURLEncoding.AppendEncode(p.token, p.payload)

	p.mac.Reset()
	p.mac.Write(p.token)
	var sum [sha256.Size]byte
	p.token = append(p.token, '.')
	p.token = base64.RawURLEncoding.AppendEncode(p.token, p.mac.Sum(sum[:0]))
	return string(p.token)
}

func (c *claims) appendJSON(b []byte) []byte {
	b = append(b, `{"aud":"","body":"`...)
	b = base64.URLEncoding.AppendEncode(b, c.bodyHash[:])
	b = append(b, `","exp":`...)
	b = strconv.AppendInt(b, c.issuedAt+lifetime, 10)
	b = append(b, `,"iat":`...)
	b = strconv.AppendInt(b, c.issuedAt, 10)
	b = append(b, `,"iss":"`+issuer+`","jti":"`...)
	b = append(b, c.id...)
	b = append(b, `","nbf":`...)
	b = strconv.AppendInt(b, c.notBefore, 10)
	b = append(b, `,"sub":`...)
	b = appendText(b, c.url)
	return append(b, '}')
}

// appendText appends a JSON string. Almost all URLs are plain; the library is
// for the others.
func appendText(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(text) // no string makes it fail
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, text...)
	return append(b, '"')
}
