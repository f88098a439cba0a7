// Package console serves the web console: pages and scripts that are built from
// web/ and embedded, and a policy that keeps them harmless. It has no data of its
// own. What a page shows, its script asks of the HTTP API with the token of
// everybody who looks at it.
package console

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
)

// Path is where the console is served, and everything below it.
const Path = "/console"

// assetPath is where its files are; every other path is one of its views, which all
// begin with the same page.
const assetPath = Path + "/assets/"

//go:embed assets
var embedded embed.FS

// policy lets a page load its own files and call its own server, and nothing else.
// What a payload may smuggle in is never run, sent away or shown in a frame.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// file is an embedded file as it is served.
type file struct {
	media string
	tag   string // its entity tag, which follows from the content
	data  []byte
}

// handler serves the files.
type handler struct {
	page   file
	assets map[string]file // by name
}

// Has reports whether a path of the server is the console's.
func Has(path string) bool {
	rest, below := strings.CutPrefix(path, Path)
	return below && (rest == "" || rest[0] == '/')
}

// New returns the handler of the paths that the console has.
func New() http.Handler {
	h := &handler{assets: make(map[string]file)}
	entries, err := embedded.ReadDir("assets")
	if err != nil {
		panic(err) // the program was built without them
	}
	for _, entry := range entries {
		data, err := fs.ReadFile(embedded, "assets/"+entry.Name())
		if err != nil {
			panic(err)
		}
		h.assets[entry.Name()] = newFile(entry.Name(), data)
	}
	h.page = h.assets["index.html"]
	delete(h.assets, "index.html")
	return h
}

func newFile(name string, data []byte) file {
	sum := sha256.Sum256(data)
	return file{
		media: mime.TypeByExtension(path.Ext(name)),
		tag:   strconv.Quote(hex.EncodeToString(sum[:12])),
		data:  data,
	}
}

// ServeHTTP answers with a file, or with the page for the path of a view.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		http.Error(w, fmt.Sprintf("%.20s cannot be done to the console: GET and HEAD can", r.Method), http.StatusMethodNotAllowed)
		return
	}
	name, isAsset := strings.CutPrefix(r.URL.Path, assetPath)
	served, known := h.page, true
	if isAsset {
		served, known = h.assets[name]
	}
	if !known {
		http.Error(w, "the console has no such file", http.StatusNotFound)
		return
	}
	served.write(w, r)
}

// write answers with the file, or with 304 to who has it. Browsers ask each time,
// so that what they show is of the server they show it of.
func (f file) write(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Etag", f.tag)
	header.Set("Cache-Control", "no-cache")
	if r.Header.Get("If-None-Match") == f.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	header.Set("Content-Type", f.media)
	header.Set("Content-Length", strconv.Itoa(len(f.data)))
	if r.Method == http.MethodGet {
		_, _ = w.Write(f.data)
	}
}
