# A deb or an rpm (cpack -G DEB or RPM) of files that tools/wheel has put into usr below the folder STAGE. It includes
# this, and has set STAGE, VERSION and FILE_NAME. They are the wheel's own files, byte for byte: nothing is stripped or compressed here.
set(CPACK_PACKAGE_NAME slipstream)
set(CPACK_PACKAGE_VERSION ${VERSION})
set(CPACK_PACKAGE_FILE_NAME slipstream)  # of what lies between
set(CPACK_PACKAGE_VENDOR "The slipstream authors")
set(CPACK_PACKAGE_CONTACT "The slipstream authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Makes PyTorch training faster and says where its time goes")
set(CPACK_PACKAGE_DESCRIPTION "slipstream run -- python train.py preloads a library between the program and
CUDA. Blocking copies become asynchronous, freed device memory is kept for the
next allocation, and every call can be recorded. Results stay the same.
slipstream help, or man slipstream, has the manual.")
set(CPACK_RPM_PACKAGE_DESCRIPTION "${CPACK_PACKAGE_DESCRIPTION}")
set(CPACK_INSTALLED_DIRECTORIES ${STAGE} /)
set(CPACK_PACKAGING_INSTALL_PREFIX /)
set(CPACK_STRIP_FILES OFF)

set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE amd64)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6 (>= 2.28)")
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_FILE_NAME ${FILE_NAME})

set(CPACK_RPM_PACKAGE_ARCHITECTURE x86_64)
set(CPACK_RPM_PACKAGE_LICENSE Apache-2.0)
set(CPACK_RPM_PACKAGE_GROUP Development/Tools)
set(CPACK_RPM_PACKAGE_AUTOPROV no)  # the library is no other program's
set(CPACK_RPM_COMPRESSION_TYPE xz)
set(CPACK_RPM_SPEC_MORE_DEFINE "%define __os_install_post %{nil}\n%define debug_package %{nil}\n%define _build_id_links none\n\
%define _buildhost slipstream")
set(CPACK_RPM_FILE_NAME ${FILE_NAME})
# Every distribution has them. Those of the shells need not be there, and are then removed with the package.
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION /usr /usr/bin /usr/libexec /usr/share /usr/share/doc /usr/share/man /usr/share/man/man1
    /usr/share/man/man5 /usr/share/man/man7)
