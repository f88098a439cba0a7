package cli

import (
	"fmt"
	"slices"
	"strings"

	"posthaste"
	"posthaste/internal/app"
	"posthaste/internal/sign"
)

// accessSettings say who may use the API. All of them are secrets: they are kept
// as texts and read by tokens and signingKeys, because an error of the command
// line's own readers would show the value.
type accessSettings struct {
	Token             string   `group:"access" help:"API token of the first user, base64 of {\"UserID\":\"me\",\"Password\":\"secret\"}. If no user is configured, the server generates a token at its first start and prints it once. Other users of the machine can read command lines: pass secrets in environment variables such as $$POSTHASTE_TOKEN, or in the --config file."`
	Users             []string `group:"access" placeholder:"NAME:PASSWORD" help:"Additional users. The token of each is the same JSON with that name and password, in base64."`
	ReadOnlyUsers     []string `group:"access" placeholder:"NAME:PASSWORD" help:"Users with read-only tokens: the same JSON with \"ReadOnly\":true. A token reveals its password, so a read-only user needs a password of its own."`
	CurrentSigningKey string   `group:"access" help:"Initial signing key for the first user's deliveries. Default: a generated key."`
	NextSigningKey    string   `group:"access" help:"Signing key that becomes current when keys are rotated."`
}

// check returns a sentence about the first setting that is wrong.
func (s *accessSettings) check() error {
	if _, _, err := s.tokens(); err != nil {
		return err
	}
	return s.checkSigningKeys()
}

// tokens returns the tokens of those who may write, the first user's first, and
// of those who may only read. It refuses a read-only token that would betray a
// full one.
func (s *accessSettings) tokens() (full, readOnly []sign.Token, err error) {
	if s.Token != "" {
		first, err := sign.ParseToken(s.Token)
		if err != nil {
			return nil, nil, fmt.Errorf("token: %w", err)
		}
		if first.ReadOnly {
			return nil, nil, posthaste.Invalidf("token of %q is read-only: give one that may write", first.UserID)
		}
		full = append(full, first)
	}
	users, err := accounts("users", s.Users)
	if err != nil {
		return nil, nil, err
	}
	full = append(full, users...)
	readOnly, err = accounts("read-only-users", s.ReadOnlyUsers)
	if err != nil {
		return nil, nil, err
	}
	for i := range readOnly {
		if slices.Contains(full, readOnly[i]) {
			return nil, nil, posthaste.Invalidf("read-only-users gives %q the password of a full token, which the read-only token would show: choose another", readOnly[i].UserID)
		}
		readOnly[i].ReadOnly = true
	}
	return full, readOnly, nil
}

// accounts reads NAME:PASSWORD pairs; a password may hold further colons.
func accounts(setting string, pairs []string) ([]sign.Token, error) {
	tokens := make([]sign.Token, len(pairs))
	for i, pair := range pairs {
		name, password, found := strings.Cut(pair, ":")
		if !found || name == "" || password == "" {
			return nil, posthaste.Invalidf("%s: entry %d is not NAME:PASSWORD, with both parts non-empty", setting, i+1)
		}
		if err := posthaste.CheckUserID("name", name); err != nil {
			return nil, posthaste.Invalidf("%s: entry %d: %v", setting, i+1, err)
		}
		tokens[i] = sign.Token{UserID: name, Password: password}
	}
	return tokens, nil
}

func (s *accessSettings) checkSigningKeys() error {
	pair := sign.KeyPair{Current: s.CurrentSigningKey, Next: s.NextSigningKey}
	switch {
	case pair == sign.KeyPair{}:
		return nil
	case pair.Current == "" || pair.Next == "":
		return posthaste.Invalidf("current-signing-key and next-signing-key must be set together: give both or neither")
	case pair.Current == pair.Next:
		return posthaste.Invalidf("current-signing-key and next-signing-key are the same: rotating them would change nothing")
	}
	return pair.Check()
}

// grant puts the access settings, which were checked, into the options. A token
// that was given is accepted as it was written, whatever order its JSON has.
func (s *accessSettings) grant(options *app.Options) error {
	full, readOnly, err := s.tokens()
	if err != nil {
		return err
	}
	if s.Token != "" {
		options.Tokens = append(options.Tokens, s.Token)
	}
	for _, token := range slices.Concat(full, readOnly) {
		options.Tokens = append(options.Tokens, token.Encode())
	}
	first := app.DefaultUser
	if len(full) > 0 {
		first = full[0].UserID
	}
	options.OwnToken = len(full) == 0
	if s.CurrentSigningKey != "" {
		options.SigningKeys = map[string]sign.KeyPair{first: {Current: s.CurrentSigningKey, Next: s.NextSigningKey}}
	}
	return nil
}
