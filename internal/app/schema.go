package app

import (
	"context"
	"fmt"

	"posthaste/internal/store/postgres"
)

// Schema is where the schema of a database stands, and which programs go with it.
type Schema = postgres.Schema

// ReadSchema returns where the schema of a database stands. It changes nothing.
func ReadSchema(ctx context.Context, url string) (Schema, error) {
	at, err := postgres.ReadSchema(ctx, url)
	if err != nil {
		return at, fmt.Errorf("read the schema: %w", err)
	}
	return at, nil
}

// RevertSchema takes the schema of a database back to a version, unless nodes live that
// know a later one.
func RevertSchema(ctx context.Context, url string, to int) error {
	if err := postgres.Revert(ctx, url, to); err != nil {
		return fmt.Errorf("take the schema back: %w", err)
	}
	return nil
}
