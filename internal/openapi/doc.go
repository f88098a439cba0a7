// Package openapi owns the description of the API: openapi.yaml, which is written by
// hand and served as it is, and the reference that is made of it (package site serves both).
//
// Tests keep the description true: every route has to be in it, and what the tests of
// the API send and receive has to be as it says (package openapitest).
package openapi

import _ "embed"

// Source is the description, OpenAPI 3.1 in YAML.
//
//go:embed openapi.yaml
var Source []byte
