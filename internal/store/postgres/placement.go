package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"posthaste/internal/store"
)

// placement is which of several databases one is: partitions are divided among them by their shards, so
// that each has as many of each user as of all. The zero value is the only one.
type placement struct {
	number int        // from 0
	of     *Databases // nil: it is the only one
}

func (p placement) several() bool { return p.of != nil }

// part names the database, if it is one of several.
func (p placement) part() store.PartAway {
	if !p.several() {
		return ""
	}
	return store.PartAway(fmt.Sprintf("database %d of %d", p.number+1, len(p.of.all)))
}

// name is what messages call one of several databases.
func (p placement) name() string { return string(p.part()) }

// counts returns where the claims of users are counted.
func (p placement) counts() *userCounts {
	if p.several() {
		return p.of.counts
	}
	return newUserCounts()
}

// databaseOf returns which of some databases has a partition. The first one has what belongs to nobody.
func databaseOf(partition string, databases int) int {
	if partition == "" {
		return 0
	}
	return int(shardOf(partition)) * databases / shards
}

// has reports whether a partition is in this database.
func (p placement) has(partition string) bool {
	return !p.several() || databaseOf(partition, len(p.of.all)) == p.number
}

// shards returns those of this database.
func (p placement) shards() share {
	if !p.several() {
		return share{0, shards}
	}
	first := func(number int) int16 { return int16((number*shards + len(p.of.all) - 1) / len(p.of.all)) }
	return share{first(p.number), first(p.number + 1)}
}

// storeOf returns the store of the database that has a partition.
func (s *Store) storeOf(partition string) *Store {
	if s.placement.has(partition) {
		return s
	}
	return s.placement.of.of(partition)
}

// errPlace begins what is wrong with the databases that were given.
var errPlace = errors.New("these are not the databases that were used together before, in their order")

// place is a row of the table of placement.
type place struct {
	Together          string
	Number, Databases int
}

const readPlace = `SELECT together, number, databases FROM posthaste.placement`

// takePlace notes in a new database which of how many it is, and otherwise compares that.
func (s *Store) takePlace(ctx context.Context) error {
	found, err := rows(ctx, s.pool, pgx.RowToStructByPos[place], readPlace)
	if err != nil {
		return err
	}
	p := s.placement
	if p.several() {
		if err := s.canPrepare(ctx); err != nil {
			return err
		}
	}
	switch {
	case !p.several() && len(found) == 0:
		return nil
	case !p.several() && found[0].Databases > 1:
		return fmt.Errorf("it is database %d of %d: give all of them, in their order", found[0].Number+1, found[0].Databases)
	case !p.several():
		return nil
	case len(found) == 0:
		return s.takeNewPlace(ctx)
	}
	own := found[0]
	if p.number == 0 {
		p.of.together = own.Together
	}
	switch want := (place{p.of.together, p.number, len(p.of.all)}); {
	case own.Databases != want.Databases:
		return fmt.Errorf("%w: %s was one of %d", errPlace, p.name(), own.Databases)
	case own.Number != want.Number:
		return fmt.Errorf("%w: %s was the one with number %d", errPlace, p.name(), own.Number+1)
	case own.Together != want.Together:
		return fmt.Errorf("%w: %s was used with others", errPlace, p.name())
	}
	return nil
}

// takeNewPlace notes which database this is, unless it has been used alone, or the first one with another one.
func (s *Store) takeNewPlace(ctx context.Context) error {
	p := s.placement
	used, err := s.isUsed(ctx)
	if err == nil && used {
		err = fmt.Errorf("%s has been used alone: copy it into new ones with posthaste copy", p.name())
	}
	others := s.existing
	if err == nil && p.number > 0 && !others {
		others, err = p.of.all[0].isUsed(ctx)
	}
	if err == nil && others {
		err = fmt.Errorf("%w: %s is new", errPlace, p.name())
	}
	if err == nil && p.number == 0 && p.of.incomplete != nil {
		err = fmt.Errorf("%s is new: all must be there at first: %w", p.name(), p.of.incomplete)
	}
	if err != nil {
		return err
	}
	if p.number == 0 {
		p.of.together = rand.Text()
	}
	if _, err := s.pool.Exec(ctx, `INSERT INTO posthaste.placement (together, number, databases) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
		p.of.together, p.number, len(p.of.all)); err != nil {
		return err
	}
	return s.takePlace(ctx) // another node may have been first
}

// isUsed reports whether the database has users.
func (s *Store) isUsed(ctx context.Context) (bool, error) {
	return row(ctx, s.pool, pgx.RowTo[bool], `SELECT EXISTS (SELECT FROM posthaste.users)`)
}

// recordAnywhere reads a record of a partition in whichever database.
func (tx *tx) recordAnywhere(of recordOf) ([]byte, error) {
	if other := tx.store.storeOf(of.user); other != tx.store {
		return tx.record(tx.ctx, other.pool, of)
	}
	return tx.record(tx.ctx, tx, of)
}
