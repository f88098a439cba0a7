package storetest

import (
	"errors"
	"net/http"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

var urlGroupPromises = []promise{
	{"a group is kept as it was left", func(tr *trial) {
		tr.updateGroup("g", fillGroup)
		tr.updateGroup("g", func(g *posthaste.URLGroup) {
			tr.same("group that is changed", filledGroup("g"), timeless(*g))
			g.Endpoints = append(g.Endpoints, posthaste.Endpoint{URL: "http://c.example/"})
		})
		got, err := tr.store.URLGroup(tr.Context(), ann, "g")
		if err != nil || len(got.Endpoints) != 3 {
			tr.Errorf("URLGroup = %+v, %v, want 3 endpoints", got, err)
		}
	}},
	{"a change that fails changes nothing", func(tr *trial) {
		tr.updateGroup("g", fillGroup)
		broken := errors.New("no change")
		err := tr.store.UpdateURLGroup(tr.Context(), tr.now, ann, "g", func(g *posthaste.URLGroup) error {
			g.Endpoints[0].URL = "http://other.example/"
			return broken
		})
		tr.wantErr(broken, err)
		tr.wantGroups("g")
	}},
	{"what was read is the reader's own", func(tr *trial) {
		tr.updateGroup("g", fillGroup)
		got := must(tr.store.URLGroup(tr.Context(), ann, "g"))(tr)
		got.Endpoints[0].URL = "http://other.example/"
		tr.wantGroups("g")
	}},
	{"a group without endpoints is gone", func(tr *trial) {
		tr.updateGroup("g", fillGroup)
		tr.updateGroup("g", func(g *posthaste.URLGroup) { g.Endpoints = nil })
		tr.updateGroup("never", func(*posthaste.URLGroup) {})
		tr.wantGroups()
		tr.wantErr(store.ErrNotFound, errorOf(tr.store.URLGroup(tr.Context(), ann, "g")))
	}},
	{"a deleted group is gone", func(tr *trial) {
		tr.updateGroup("a", fillGroup)
		tr.updateGroup("b", fillGroup)
		for range 2 {
			if err := tr.store.DeleteURLGroup(tr.Context(), ann, "a"); err != nil {
				tr.Error(err)
			}
		}
		tr.wantGroups("b")
	}},
	{"groups are listed by name and user", func(tr *trial) {
		for _, name := range []string{"b", "a/1", "a"} {
			tr.updateGroup(name, fillGroup)
		}
		tr.wantGroups("a", "a/1", "b")
		if others, err := tr.allGroups(anna); err != nil || len(others) > 0 {
			tr.Errorf("groups of another user: %v, %v", others, err)
		}
	}},
}

// filledGroup is a group as fillGroup leaves it, without times.
func filledGroup(name string) posthaste.URLGroup {
	g := posthaste.URLGroup{Name: name}
	fillGroup(&g)
	return g
}

func fillGroup(g *posthaste.URLGroup) {
	g.Endpoints = []posthaste.Endpoint{{Name: "one", URL: "http://a.example/"}, {URL: "http://b.example/"}}
	g.Headers = http.Header{"Upstash-Retries": {"3"}}
}

func timeless(g posthaste.URLGroup) posthaste.URLGroup {
	g.CreatedAt, g.UpdatedAt = time.Time{}, time.Time{}
	return g
}

func (tr *trial) updateGroup(name string, change func(*posthaste.URLGroup)) {
	tr.Helper()
	err := tr.store.UpdateURLGroup(tr.Context(), tr.now, ann, name, func(g *posthaste.URLGroup) error {
		change(g)
		return nil
	})
	if err != nil {
		tr.Fatalf("UpdateURLGroup: %v", err)
	}
}

// wantGroups requires ann to have these groups, all as fillGroup left them.
func (tr *trial) wantGroups(names ...string) {
	tr.Helper()
	all := must(tr.allGroups(ann))(tr)
	var got, want []posthaste.URLGroup
	for _, g := range all {
		got = append(got, timeless(*g))
	}
	for _, name := range names {
		want = append(want, filledGroup(name))
	}
	tr.same("groups", want, got)
}
