// Package site serves the documentation under /docs: the pages of docs/ as HTML and as they are
// written, a search, the reference of the API, and /llms.txt, which lists them for programs.
//
// Nothing of it asks another host for anything.
package site

import (
	_ "embed"
	"fmt"
	"html/template"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"

	"posthaste/docs"
	"posthaste/internal/openapi"
)

//go:embed layout.html
var layoutSource string

//go:embed style.css
var style []byte

// policy lets a page show itself and its style, and ask this server.
const policy = "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// The paths that are not those of a page.
const (
	homePath      = "/docs"
	searchPath    = "/docs/search"
	referencePath = "/docs/reference"
	llmsPath      = "/llms.txt"
)

// navigation is what the side of each page lists.
var navigation = []struct {
	Title string
	Names []string // of pages, without .md
}{
	{"Guides", []string{
		"guides/restart", "guides/local", "guides/migrate", "guides/nextjs", "guides/python", "guides/go", "guides/receivers",
		"guides/containers", "guides/proxies", "guides/3am",
	}},
	{"Using it", []string{"cli", "api", "console", "compatibility"}},
	{"Running it", []string{"operations", "cluster", "performance", "reliability"}},
	{"Inside", []string{"architecture", "design"}},
}

// built is everything that is served, made when it is first asked for.
type built struct {
	files  map[string]file // by path
	pages  map[string]*page
	layout *template.Template
	search []passage
}

type file struct {
	mediaType string
	content   []byte
}

var load = sync.OnceValue(func() *built {
	b, err := build()
	if err != nil {
		panic(err) // what it is made of is part of the program
	}
	return b
})

func build() (*built, error) {
	layout, err := template.New("layout").Parse(layoutSource)
	if err != nil {
		return nil, fmt.Errorf("read the layout of the documentation: %w", err)
	}
	b := &built{files: make(map[string]file), pages: make(map[string]*page), layout: layout}
	b.files["/docs/style.css"] = file{"text/css; charset=utf-8", style}
	b.files["/openapi.yaml"] = file{"application/yaml", openapi.Source}
	err = fs.WalkDir(docs.Files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := docs.Files.ReadFile(name)
		if err != nil {
			return err
		}
		if path.Ext(name) != ".md" {
			b.files["/docs/"+name] = file{mime.TypeByExtension(path.Ext(name)), text}
			return nil
		}
		p, err := parse(name, text)
		if err != nil {
			return fmt.Errorf("docs/%s: %w", name, err)
		}
		b.pages[pathOf(name)] = p
		b.files["/docs/"+name] = file{"text/markdown; charset=utf-8", text}
		return nil
	})
	if err != nil {
		return nil, err
	}
	reference, operations, err := reference()
	if err != nil {
		return nil, err
	}
	b.pages[referencePath] = reference
	for at, p := range b.pages {
		html, err := b.render(at, p)
		if err != nil {
			return nil, err
		}
		b.files[at] = file{"text/html; charset=utf-8", html}
		b.add(p.passages(at)...)
	}
	b.files["/docs/"] = b.files[homePath]
	b.files["/docs/reference.js"] = file{"text/javascript; charset=utf-8", openapi.Script}
	b.add(operations...)
	b.files[llmsPath] = file{"text/plain; charset=utf-8", b.llms()}
	return b, nil
}

// pathOf returns where a page of docs/ is served.
func pathOf(name string) string {
	name = strings.TrimSuffix(strings.TrimSuffix(name, ".md"), "README")
	return strings.TrimSuffix("/docs/"+name, "/")
}

// Has reports whether Handler serves a path.
func Has(path string) bool {
	return path == llmsPath || path == "/openapi.yaml" || path == homePath || strings.HasPrefix(path, "/docs/")
}

// Handler returns the handler of the documentation.
func Handler() http.Handler { return http.HandlerFunc(serve) }

func serve(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		header.Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusMethodNotAllowed)
		_, _ = w.Write([]byte(`{"error":"this page can be read by GET only"}` + "\n")) // the client may be gone
		return
	}
	b := load()
	f, ok := b.files[r.URL.Path]
	status := http.StatusOK
	if !ok {
		shown := missing
		if r.URL.Path == searchPath {
			shown = b.find(r.URL.Query().Get("q"))
		} else {
			status = http.StatusNotFound
		}
		html, err := b.render(searchPath, shown)
		if err != nil {
			http.Error(w, "the page cannot be shown", http.StatusInternalServerError)
			return
		}
		f = file{"text/html; charset=utf-8", html}
	}
	header.Set("Content-Type", f.mediaType)
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(status)
	_, _ = w.Write(f.content) // the client may be gone
}

// missing is shown where there is no page.
var missing = &page{Title: "Page not found", Body: `<h1>Page not found</h1><p>There is no page here. Look for it in the navigation, or search.</p>`}
