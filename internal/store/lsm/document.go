package lsm

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"posthaste/internal/store"
)

// documents keeps small records of one kind, each under its user and name.
type documents[T any] struct {
	kind   byte
	thing  string // what one of them is, for errors
	encode func(dst []byte, document *T) []byte
	decode func(user, name string, data []byte) (*T, error)
}

func (d documents[T]) key(user, name string) []byte {
	return append(appendUser([]byte{d.kind}, user), name...)
}

// read decodes a document. An error names it.
func (d documents[T]) read(user, name string, data []byte) (*T, error) {
	document, err := d.decode(user, name, data)
	if err != nil {
		return nil, fmt.Errorf("%s %q of user %q: %w", d.thing, name, user, err)
	}
	return document, nil
}

// get returns a document, or store.ErrNotFound.
func (d documents[T]) get(r pebble.Reader, user, name string) (*T, error) {
	var document *T
	err := get(r, d.key(user, name), func(data []byte) (err error) {
		document, err = d.read(user, name, data)
		return err
	})
	return document, err
}

// load returns a document as of the commit, nil if there is none. Once loaded it
// can be loaded again without an error.
func (d documents[T]) load(c *commit, user, name string) (*T, error) {
	key := d.key(user, name)
	if cached, ok := c.documents[string(key)]; ok {
		return cached.(*T), nil
	}
	document, err := d.get(c.records(), user, name)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	c.documents[string(key)] = document
	return document, nil
}

// save writes a document.
func (d documents[T]) save(c *commit, user, name string, document *T) {
	key := d.key(user, name)
	c.documents[string(key)] = document
	c.setRecord(key, d.encode(nil, document))
}

// remove deletes a document.
func (d documents[T]) remove(c *commit, user, name string) {
	key := d.key(user, name)
	c.documents[string(key)] = (*T)(nil)
	c.deleteRecord(key)
}

// scan visits all keys with a prefix, in order, until visit returns an error.
func scan(r pebble.Reader, prefix []byte, visit func(key, value []byte) error) error {
	iter, err := r.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: prefixEnd(prefix)})
	if err != nil {
		return err
	}
	for valid := iter.First(); valid && err == nil; valid = iter.Next() {
		err = visit(iter.Key(), iter.Value())
	}
	return errors.Join(err, iter.Error(), iter.Close())
}
