package config

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// derive fills in the defaults that depend on the host or on other settings.
func (v *Values) derive() error {
	if v.Text("brokerName") == "" {
		host, err := os.Hostname()
		if err != nil || host == "" {
			host = "DEFAULT_BROKER"
		}
		v.put("brokerName", host, "host name")
	}
	if id := v.Int("brokerId"); id != 0 {
		v.warn("brokerId=%d (%s) is ignored: brokerRole=ASYNC_MASTER is always 0", id, v.values["brokerId"].Source)
		v.put("brokerId", "0", "brokerRole")
	}
	if v.Text("haListenPort") == "" {
		v.put("haListenPort", strconv.FormatInt(v.Int("listenPort")+1, 10), "listenPort+1")
	}
	if v.Int("listenPort") < 3 {
		return fmt.Errorf("config: listenPort=%d: allowed is from 3, for the fast port is listenPort-2", v.Int("listenPort"))
	}
	if size := v.Int("mappedFileSizeConsumeQueue"); size%20 != 0 {
		rounded := (size/20 + 1) * 20
		v.warn("mappedFileSizeConsumeQueue=%d is rounded up to %d, a multiple of the 20 bytes of an entry", size, rounded)
		v.put("mappedFileSizeConsumeQueue", strconv.FormatInt(rounded, 10), v.values["mappedFileSizeConsumeQueue"].Source)
	}
	v.deriveTransientPool()
	if err := v.derivePaths(); err != nil {
		return err
	}
	if err := v.checkNameServers(); err != nil {
		return err
	}
	return v.deriveAddresses()
}

// deriveTransientPool switches the transient pool off where it has no place. In each case what is done instead promises more.
func (v *Values) deriveTransientPool() {
	if !v.Bool("transientStorePoolEnable") {
		return
	}
	why := noTransientPool(v.Text("flushDiskType"), v.Text("brokerRole"), v.Text("ringmq.appendPath"))
	if why == "" {
		return
	}
	v.warn("transientStorePoolEnable=true (%s) is ignored: %s", v.values["transientStorePoolEnable"].Source, why)
	v.put("transientStorePoolEnable", "false", why)
}

// noTransientPool says why there is no transient pool, "" if there can be one. The first two are the original's conditions.
func noTransientPool(flushDiskType, role, appendPath string) string {
	switch {
	case flushDiskType == "SYNC_FLUSH":
		return "flushDiskType=SYNC_FLUSH answers when the device has the message"
	case role == "SLAVE":
		return "brokerRole=SLAVE takes no messages of its own"
	case appendPath == "mmap":
		return "ringmq.appendPath=mmap appends without a pool"
	}
	return ""
}

func (v *Values) derivePaths() error {
	root := v.Text("storePathRootDir")
	if strings.Contains(root, "${user.home}") {
		home, err := os.UserHomeDir()
		if err != nil {
			return fmt.Errorf("config: storePathRootDir=%s: no home folder: %w", root, err)
		}
		root = strings.ReplaceAll(root, "${user.home}", home)
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return fmt.Errorf("config: storePathRootDir=%s: %w", root, err)
	}
	v.put("storePathRootDir", root, v.values["storePathRootDir"].Source)
	switch log := v.Text("storePathCommitLog"); {
	case log == "":
		v.put("storePathCommitLog", filepath.Join(root, "commitlog"), "storePathRootDir")
	case strings.Contains(log, ","):
		return fmt.Errorf("config: storePathCommitLog=%s: a commit log on several paths is not built; allowed is one folder", log)
	}
	return nil
}

func (v *Values) checkNameServers() error {
	for _, address := range v.NameServers() {
		if host, port, ok := cutPort(address); !ok || host == "" || port == 0 {
			return fmt.Errorf("config: namesrvAddr=%s: '%s' is not host:port", v.Text("namesrvAddr"), address)
		}
	}
	return nil
}

// NameServers is namesrvAddr cut into addresses; none means an embedded one.
func (v *Values) NameServers() []string {
	var list []string
	for _, address := range strings.FieldsFunc(v.Text("namesrvAddr"), func(r rune) bool { return r == ';' || r == ',' }) {
		if address = strings.TrimSpace(address); address != "" {
			list = append(list, address)
		}
	}
	return list
}

// deriveAddresses keeps everything on loopback until a setting names another host: a broker without access control must not be
// opened to a network by default.
func (v *Values) deriveAddresses() error {
	named := v.namesOtherHost()
	if v.Text("bindAddress") == "" {
		if named != "" {
			v.put("bindAddress", "0.0.0.0", named+" names another host")
		} else {
			v.put("bindAddress", "127.0.0.1", "no setting names another host")
		}
	}
	if _, err := netip.ParseAddr(v.Text("bindAddress")); err != nil {
		return fmt.Errorf("config: bindAddress=%s: allowed is an IP address", v.Text("bindAddress"))
	}
	if v.Text("brokerIP1") == "" {
		if named != "" {
			v.put("brokerIP1", outsideAddress(), "first address of this host")
		} else {
			v.put("brokerIP1", "127.0.0.1", "bindAddress")
		}
	}
	if v.Text("brokerIP2") == "" {
		v.put("brokerIP2", v.Text("brokerIP1"), "brokerIP1")
	}
	for _, name := range []string{"brokerIP1", "brokerIP2"} {
		if _, err := netip.ParseAddr(v.Text(name)); err != nil {
			return fmt.Errorf("config: %s=%s: allowed is an IP address", name, v.Text(name))
		}
	}
	return nil
}

// namesOtherHost returns the first setting that names a host other than this one's loopback.
func (v *Values) namesOtherHost() string {
	for _, name := range []string{"bindAddress", "brokerIP1"} {
		if text := v.Text(name); text != "" && !isLoopback(text) {
			return name
		}
	}
	for _, address := range v.NameServers() {
		if host, _, _ := cutPort(address); !isLoopback(host) {
			return "namesrvAddr"
		}
	}
	return ""
}

func isLoopback(host string) bool {
	host = strings.Trim(host, "[]")
	if host == "localhost" {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.IsLoopback()
}

// outsideAddress is the first address of this host that is not loopback, IPv4 preferred, as the original chooses.
func outsideAddress() string {
	fallback := "127.0.0.1"
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return fallback
	}
	for _, a := range addresses {
		network, ok := a.(*net.IPNet)
		if !ok || !network.IP.IsGlobalUnicast() {
			continue
		}
		if network.IP.To4() != nil {
			return network.IP.String()
		}
		fallback = network.IP.String()
	}
	return fallback
}
