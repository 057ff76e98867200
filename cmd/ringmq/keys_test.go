package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"ringmq/internal/config"
)

// Every key that is taken has an effect: somebody asks for it by its name. A key with one allowed value needs none.
func TestEveryKeyIsRead(t *testing.T) {
	t.Parallel()
	var source strings.Builder
	for _, dir := range []string{".", filepath.Join("..", "..", "internal", "config")} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%d files in %s: %v", len(files), dir, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") || filepath.Base(file) == "keys.go" {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			source.Write(text)
		}
	}
	for _, value := range values(t).All() {
		k := value.Key
		if k.Kind == config.Choice && len(k.Allowed) == 1 || k.Name == "ringmq.commitPath" { // both of its values are the one way there is
			continue
		}
		if !strings.Contains(source.String(), strconv.Quote(k.Name)) {
			t.Errorf("%s is taken, but nothing reads it", k.Name)
		}
	}
}
