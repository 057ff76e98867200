package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// imageName is the one file of the mounted folder: the disk.
const imageName = "disk"

type root struct {
	fs.Inode
	disk *disk
}

func (r *root) OnAdd(ctx context.Context) {
	r.AddChild(imageName, r.NewPersistentInode(ctx, &image{disk: r.disk}, fs.StableAttr{Mode: syscall.S_IFREG}), false)
}

// image is the disk as a file. It is opened for direct I/O, so that the kernel keeps no pages of it: each request of the loop device is one here.
type image struct {
	fs.Inode
	disk *disk
}

var (
	_ fs.NodeOnAdder   = (*root)(nil)
	_ fs.NodeGetattrer = (*image)(nil)
	_ fs.NodeOpener    = (*image)(nil)
	_ fs.NodeReader    = (*image)(nil)
	_ fs.NodeWriter    = (*image)(nil)
	_ fs.NodeFsyncer   = (*image)(nil)
)

func (i *image) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode = syscall.S_IFREG | 0o600
	out.Size = uint64(i.disk.size)
	out.Blksize = blockSize
	out.Blocks = out.Size / sectorSize
	return 0
}

func (i *image) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_DIRECT_IO, 0
}

func (i *image) Read(_ context.Context, _ fs.FileHandle, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	n, err := i.disk.ReadAt(dest, off)
	if err != nil {
		return nil, syscall.EIO
	}
	return fuse.ReadResultData(dest[:n]), 0
}

func (i *image) Write(_ context.Context, _ fs.FileHandle, data []byte, off int64) (uint32, syscall.Errno) {
	n, err := i.disk.WriteAt(data, off)
	if err != nil {
		return 0, syscall.EIO
	}
	return uint32(n), 0
}

func (i *image) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	if err := i.disk.Sync(); err != nil {
		return syscall.EIO
	}
	return 0
}

// serve mounts the folder.
func serve(d *disk, folder string) (*fuse.Server, error) {
	server, err := fs.Mount(folder, &root{disk: d}, &fs.Options{MountOptions: fuse.MountOptions{
		FsName: "volatile", Name: "volatile", DirectMountStrict: true, DisableXAttrs: true,
	}})
	if err != nil {
		return nil, fmt.Errorf("volatile: mount on %s (needs root and /dev/fuse): %w", folder, err)
	}
	return server, nil
}

// leave unmounts. Whoever still has the disk open after ten seconds gets errors from then on.
func leave(server *fuse.Server, folder string) error {
	for range 100 {
		err := server.Unmount()
		if !errors.Is(err, syscall.EBUSY) {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	if err := syscall.Unmount(folder, syscall.MNT_DETACH); err != nil {
		return err
	}
	return fmt.Errorf("volatile: %s was in use for 10 s and was taken away", folder)
}
