package api

import (
	"strings"

	"posthaste"
	"posthaste/internal/api/wire"
)

// access is what a route requires of its caller.
type access int

const (
	read    access = iota // any token
	write                 // a full token
	submit                // a full token; the handler calls readBody
	secrets               // a full token: the response is a secret
	open                  // no token
)

type caller struct {
	user         string
	tokenInQuery bool
}

// authenticate sets the caller, or returns an Error with CodeUnauthorized or CodeForbidden. A
// token in the query takes precedence, because Authorization may be for the destination
// (contract, U-73).
func (a *api) authenticate(r *request, needed access) error {
	if needed == open {
		return nil
	}
	token, inQuery := r.parameter(wire.TokenParameter), true
	if token == "" {
		token, inQuery = bearerToken(r.Header.Get("Authorization")), false
	}
	if token == "" {
		return posthaste.Errorf(posthaste.CodeUnauthorized,
			"no token was given, send the header Authorization: Bearer <token> or the query parameter %s", wire.TokenParameter)
	}
	user, readOnly, ok := a.options.Authenticator.Authenticate(token)
	if !ok {
		return posthaste.Errorf(posthaste.CodeUnauthorized, "the token is not known to this server")
	}
	switch {
	case readOnly && needed == secrets:
		return posthaste.Errorf(posthaste.CodeForbidden,
			"this is a readonly token, which may not read signing keys: anyone who knows them can sign requests that destinations trust")
	case readOnly && needed != read:
		return posthaste.Errorf(posthaste.CodeForbidden,
			"this is a readonly token, which may read but not publish, create or change anything")
	}
	r.caller = caller{user: user, tokenInQuery: inQuery}
	return nil
}

// bearerToken returns the token of an Authorization header, "" for another scheme.
func bearerToken(authorization string) string {
	scheme, token, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
